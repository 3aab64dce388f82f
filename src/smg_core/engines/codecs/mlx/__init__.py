"""The MLX dialect, `mlx.grpc.engine.MlxEngine`: mlx-lm behind its gRPC servicer.

codec      `MlxCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and `FACTS`, what MLX can be asked
"""
