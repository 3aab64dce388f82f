"""Embeddings, rerank, score and classify, in the forms of OpenAI, Cohere, Google and vLLM: one handler for all."""
