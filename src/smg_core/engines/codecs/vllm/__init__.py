"""The vLLM dialect, `vllm.grpc.engine.VllmEngine`.

codec      `VllmCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and `FACTS`, what vLLM can be asked
media      media as the dialect's messages
packing    `VllmPacking`: prepared media into `media`'s shapes (needs numpy)
"""
