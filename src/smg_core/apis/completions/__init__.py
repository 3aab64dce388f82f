"""OpenAI Completions: types, decoder, encoders."""
