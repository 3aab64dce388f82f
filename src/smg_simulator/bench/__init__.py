"""Measures a server of Chat Completions from outside: first token, gaps, throughput, goodput. Exports nothing.

- `load`: which requests are sent, and when
- `figures`: what came of them, and the figures of all
- `asking` (edge): sends one request and reads its stream; runs a load
- `report`: the figures as an HTML page with plots, and as lines of text
"""
