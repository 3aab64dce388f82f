"""Moderations, as OpenAI's API has them: by a classifier that is served, or by a provider's own route.

Begin with `routes`; `wire` has the types, `inference` finds who answers.
"""
