"""KV events as vLLM and SGLang publish them on ZeroMQ.

messages     what the published messages mean (pure)
subscriber   subscribes to one engine, and asks for what was missed (edge)
"""
