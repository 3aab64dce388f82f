"""The TensorRT-LLM dialect, `trtllm.TrtllmService`.

codec      `TrtllmCodec`: Generate put and read, and all calls in one place
calls      the calls beside Generate, and `FACTS`, what TensorRT-LLM can be asked
"""
