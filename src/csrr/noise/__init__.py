"""Uses of V: clicks that nobody meant, unusual tastes, and how stable both are."""
