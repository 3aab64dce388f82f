"""`serve`: one process or several that share a port, their supervisor, signals, and what each tells of itself."""
