"""The models list, health, and the page at `/`."""
