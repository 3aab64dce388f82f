"""HTTP/1.1 to an engine: connections that are kept, and answers that are read as they come.

client       `HttpClient`: the sockets of one engine (edge)
dialing      opens their sockets, also through a proxy (edge)
gathering    the whole answer to one request, for a caller that waits for it (edge)
places       the places for connections, and who gets them; pure, like all below
answer       reads an answer from bytes
request      writes the head of a request
address      reads the server's URL
"""
