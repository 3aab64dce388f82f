"""How the gateway speaks to inference engines.

The modules of this folder are records and roles that all below share: `base` has the requests, outputs, facts about an engine
and the roles `Engine`, `Codec` and `Transport`; `settings` what a connection may hold.
kinds        the table of the kinds of engines, `ENGINE_KINDS`: which URLs name each, and how it is opened
codecs       one folder a dialect of engines that take token ids (vLLM, SGLang ...), and what several of them share
token_ids    `EngineClient`: one codec on one transport; openai: `OpenAiEngine`, a server of the Chat Completions API
grpc, http   gRPC (over our own HTTP/2 or grpcio) and HTTP/1.1; connections: addresses, TLS and queues that both have
kv_zmq       KV events as engines publish them on ZeroMQ; _pb: generated messages of the neutral contract (tools/proto.py)
"""
