"""HTTP/1.1 to an engine: connections that are kept, and answers that are read as they come.

client       `HttpClient`: the sockets of one engine (edge)
answer       reads an answer from bytes; pure, like all below
request      writes the head of a request
address      reads the server's URL
"""
