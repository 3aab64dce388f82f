"""The engines' own contracts, from smg-grpc-proto (Copyright 2024 SMG Team, Apache License 2.0).

Their messages are in the descriptor pool `pool.POOL`, not in protobuf's default one, so that a process can load the modules of
smg-grpc-proto too, of whatever version. A message of those is none of these: on the wire they are alike.
"""
