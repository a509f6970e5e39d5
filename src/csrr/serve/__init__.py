"""The service: recommendations over HTTP, feedback events, and a model that is replaced while it answers."""
