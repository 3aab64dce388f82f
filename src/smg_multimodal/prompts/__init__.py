"""The text for an item in a prompt: a rule for each family, and the prompt with all of its items in place.

Begin with `expand`, which makes the prompt that the engine sees; `prompts`, `clip_prompts` and `tile_prompts` have the rules.
Pure.
"""
