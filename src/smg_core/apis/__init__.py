"""The public APIs, a folder for each."""
