"""Answers that are kept for equal requests of a tenant.

Begin with `caching`, which finds and keeps answers. `keys` says which requests are equal, `flight` lets several share one
generation, `packing` writes an answer as bytes, `answer_memory` and `answer_store` hold them. Nothing here is loaded while
`response_cache.kept_s` is 0, but for the settings.
"""
