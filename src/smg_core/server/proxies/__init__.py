"""Whom a proxy before the gateway speaks for: PROXY headers of connections, and forwarding headers of requests."""
