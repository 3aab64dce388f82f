"""A fleet of engines under a virtual clock: what a routing policy does to hits, balance and waiting times, without an engine.

A trace of requests is replayed over engines that are modelled step by step; production policy objects choose among them. The
same trace, settings and seed give the same figures on every machine. All modules decide; only the command line reads files.

trace         `FleetRequest`: a request as sizes and block hashes
formats       reads the traces of Mooncake, Azure and BurstGPT
generated     makes traces: chat, agents, retrieval, bursts and others
block_cache   the KV cache of one engine, in blocks
engine        one engine: queue, chunked prefill, continuous batching
pools         `FleetSettings`: how many engines, how fast, what goes wrong
view          a fleet as one gateway replica sees it, for its policy
replay        `replay`: the run itself
oracles       what no router can beat, and routers that see the engines' true state
figures       percentiles, balance, goodput
report        one HTML page with charts
"""
