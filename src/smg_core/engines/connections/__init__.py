"""The common part of all connections to engines.

target         a worker's URL as an address, and the TLS settings (`Target`, `Tls`)
certificates   TLS contexts (edge)
secrets        a worker's headers, and how they are kept out of what is said of it
call_queue     the calls that wait for room on the connections of one engine
"""
