"""Tokenize and detokenize.

Begin with `routes` (edge), the row; `wire` has the bodies.
"""
