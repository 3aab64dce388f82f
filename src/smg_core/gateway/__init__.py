"""`Gateway`, the class that users make, and what puts all of its parts together."""
