"""gRPC to an engine, as two transports of one role.

h2            the default: gRPC over our own HTTP/2 connection (`H2Transport`)
grpcio        the reference: the grpcio library's client (`GrpcioTransport`, edge)
credentials   a transport that sends a worker's own headers with every call (edge)
"""
