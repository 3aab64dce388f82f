"""Providers that speak Chat Completions, each with its own deviations.

profiles   `ChatProfile`: how one provider deviates, as data; `CHAT_PROFILES`
body       a body of Chat Completions as one provider takes it
format     `ChatFormat`: Chat Completions of one profile as a `WireFormat`; Azure's addresses
concepts   what becomes of each concept of a request, before Azure
own_names  the client's names of tools in an answer
refusals   the errors of these providers
"""
