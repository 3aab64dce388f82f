"""The kinds of engines: what a URL and a dialect name, and how such an engine is opened."""
