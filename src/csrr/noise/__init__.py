"""What V is good for: clicks that nobody meant, tastes of one's own, and how steady both are."""
