"""From a request to a prompt: media, template, tools, formats, ids. Knows no engine.

Begin with `prepare`, which makes a `prompted` of a request for a `served` model. `formats`, `effort`, `media`, `documents` and
the others each decide one thing that a prompt has. Pure.
"""
