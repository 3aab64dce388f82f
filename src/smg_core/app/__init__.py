"""The ASGI app over all routes, and clients that call it in process."""
