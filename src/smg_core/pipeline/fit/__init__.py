"""The request to one kind of engine for a prompt, and the reading of its output.

Begin with `fit`, which is made once for each kind of engine. `constraint` decides what the engine is told to hold the output
to, `reader_choice` how the output is read. Pure.
"""
