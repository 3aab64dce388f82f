"""Providers that speak Chat Completions, each with its own deviations.

profiles   `ChatProfile`: how one provider deviates, as data; `CHAT_PROFILES`
body       a body of Chat Completions as one provider takes it
format     `ChatFormat`: Chat Completions of one profile as a `WireFormat`; Azure's addresses
refusals   the errors of these providers
"""
