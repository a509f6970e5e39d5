"""The paper reproduced: what it printed, what we find, and the page that holds the one against the other."""
