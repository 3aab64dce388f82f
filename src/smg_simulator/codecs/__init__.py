"""Each engine dialect as the simulated engine speaks it: requests to its records, its answers to messages.

Begin with `base`, the role; a module implements it for one dialect, and `all_codecs` makes those of gRPC. `shared_messages` and
`http_bodies` have what several dialects share, `choice_messages` cuts one choice into messages. Pure.
"""
