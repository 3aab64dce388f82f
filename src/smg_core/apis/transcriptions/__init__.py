"""Transcriptions and translations of recordings, as OpenAI has them.

Begin with `routes` (edge), whose row this is; `wire` has the bodies.
"""
