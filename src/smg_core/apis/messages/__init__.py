"""Anthropic Messages: types, decoder, encoders, count_tokens, and the flow with its context edits."""
