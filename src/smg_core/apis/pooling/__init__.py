"""Embeddings, rerank, score and classify, in the forms of OpenAI, Cohere, Google and vLLM: one handler for all.

Begin with `routes`, the row of all; a module has the types, decoder and encoder of each API.
"""
