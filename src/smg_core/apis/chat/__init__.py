"""OpenAI Chat Completions: types, decoder, encoders."""
