"""From an engine's output to events: decode, stop strings, reasoning, tool calls, counts.

Begin with `processor`, and `choice`, the stages of one choice; `plan` says how a turn is read and `chat_reader` reads engines
that speak chat. `budget` bounds reasoning, `kept_ids` and `continuing` let another call go on. Pure.
"""
