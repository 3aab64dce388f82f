"""Python functions as tools: their schemas from signatures and docstrings, and their calls, under the same rules as servers'.

`docstrings` and `signature` read a function, `loading` finds those that a configuration names, `session` (edge) runs their calls.
"""
