"""OpenAI Completions: types, decoder, encoders.

Begin with `api`, the row. `types` has the body, `decode` makes requests of it, `encode` writes the answers, `trials` are what
it is tried with.
"""
