"""The offers of servers, as models get them: lists that are checked, renamed, filtered, searched and held together.

Begin with `inventory`, one server's list; `catalogue` has those of several servers by name, and `search` finds tools by words.
`arguments`, `schemas`, `output_schemas` and `naming` say what may be offered and how; `results` makes outcomes of what a server
answers. Pure.
"""
