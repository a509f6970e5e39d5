"""The page to look into a model: its files in this folder, served under /ui, and what only it asks (`views`)."""
