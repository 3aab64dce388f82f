"""gRPC over HTTP/2, made for streams of small messages. Everything but `transport` is pure: bytes in, bytes out, no socket.

transport    `H2Transport`: asyncio sockets, timers, reconnecting; the only edge here
connection   `Connection`: what each frame means, windows, limits, the life of a connection
stream       one call: its window and its messages, cut out of DATA frames
sender       requests on their way out, within the windows the peer grants
headers      request heads encoded, response heads decoded
frames       frame formats and numbers
keepalive    when to ping a silent engine and when to give it up
"""
