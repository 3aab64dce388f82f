"""Batches of requests, in the forms of OpenAI and Anthropic.

Begin with `queue` and `run`. `store` is what is kept, `states` the life of a batch, `pacing` decides what is sent
next, `calls` sends it; `openai` and `messages` have the routes of the two APIs.
"""
