"""Anthropic Messages: types, decoder, encoders, count_tokens, and the flow with its context edits.

Begin with `routes`, the row, and `api`, how it is decoded and encoded. `types` has the bodies, `decode` makes requests of them,
`encode` writes the answers, `flow` clears and compacts what came before.
"""
