"""What one kind of engine is sent for a prompt, and how its output is read.

Begin with `fit`, which is made once for each kind of engine. `constraint` decides what the engine is told to hold the output
to, `reader_choice` how the output is read. Pure.
"""
