"""The vLLM dialect, `vllm.grpc.engine.VllmEngine`: `codec` puts requests and reads answers, `media` packs media tensors."""
