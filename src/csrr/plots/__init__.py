"""Charts of anything that has panels."""
