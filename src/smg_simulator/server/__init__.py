"""The simulated engine as a server (edge): every dialect on one gRPC port, the HTTP servers of three engines on another.

Begin with `grpc_server`: `SimulatedEngine`. `http_server` and `small_services` answer beside it, `embedding` and `encode_worker`
do other work than generating, `kv_exchange` and `kv_publisher` hand caches and their events on, `control` and `remote` set
faults from another process, and `running` serves until a signal.
"""
