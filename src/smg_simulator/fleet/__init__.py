"""A fleet of engines under a virtual clock: what a routing policy does to hits, balance and waiting times, without an engine.

Begin with `replay`, the run itself: a trace (`trace`, read by `formats` or made by `generated`) over engines that are modelled
step by step (`engine`, `block_cache`, `pools`), with production policies that choose among them by what a gateway sees (`view`).
`oracles` are what no router can beat, `figures` and `report` the result, `goals` what policies are held to. The same trace,
settings and seed give the same figures on every machine; only the command line reads files.
"""
