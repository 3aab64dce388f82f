"""The Realtime API: sessions over a WebSocket, in which turns are spoken or written and answered as they come.

`wire` has what a session is and says; the modules beside it are its connections, its routes and its client secrets. No handler is
loaded before the first connection.
"""
