"""Transcriptions and translations of recordings, as OpenAI has them."""
