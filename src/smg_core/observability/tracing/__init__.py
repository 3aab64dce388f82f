"""Traces: the spans of a request, made of its moments once it has ended, and sent to an OpenTelemetry collector.

While a request is under way nothing is done for its spans but to keep what a request keeps anyway; ids are drawn where something
is sent to an engine. `requests` decides what is recorded, `spans` makes the spans, `attributes` has their names, `content` what
of prompts and answers may stand in them, `sampling` reads the rules. `exporting` is the edge: a thread with the SDK.
"""
