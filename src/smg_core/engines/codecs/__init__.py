"""The codecs of engines that take token ids: one folder a dialect, and here what several of them share.

vllm, sglang, tokenspeed, trtllm, mlx, neutral, llamacpp
                     `codec` speaks gRPC and `http_codec` the engine's own HTTP server; `calls` are those beside Generate
answers, decoding    what decoders have in common: parsing messages, joining outputs, chunks and closing messages
refusals             refuses by name what a dialect's messages have no field for
shared_*             calls that several dialects have alike: health, load, the tokenizer, KV events, upkeep
protobuf, tensors    protobuf framed by hand: token ids and numbers, and tensors that are copied once
json_decoding, http_upkeep    what the dialects over HTTP share
"""
