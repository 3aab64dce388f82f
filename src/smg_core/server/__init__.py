"""The HTTP server: listeners, TLS, connections, HTTP/1.1, WebSocket, bounds.

`http_server` is uvicorn's server with our way of leaving; `http_protocol` and `socket_protocol` are one connection each.
Above: `processes`. Below: `http`, and the app that it serves.
"""
