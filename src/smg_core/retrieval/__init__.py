"""Finds texts: chunks, an index of words and vectors, searches.

Begin with `searching`: what a search is asked for and what it finds. `filters` has conditions on attributes. Nothing here knows
an API.
"""
