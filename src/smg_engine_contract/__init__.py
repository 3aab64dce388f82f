"""smg_engine_contract: The messages between gateway and engine, ours and engines' own.

    from smg_engine_contract import engine_pb2

    request = engine_pb2.GenerateRequest(request_id="1", input_ids=[1, 2, 3])

Needs protobuf alone. `engine_pb2` is the neutral contract, for engines of your own; the package `engines` has the contracts of
vLLM, SGLang, TensorRT-LLM, TokenSpeed and MLX. All modules `*_pb2` are made by tools/proto.py from the folder proto.
"""
