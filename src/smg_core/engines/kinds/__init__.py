"""The kinds of engines: what a worker's URL and dialect name, and how such an engine is checked and opened.

table     `ENGINE_KINDS` and the rows that installed packages add (`smg.engines`): which kinds a worker may be of
kind      `EngineKind`, a row; `EnginePlace`, where one engine is and what the operator says of it
grpc      the rows of dialects over gRPC
http      the rows of dialects over HTTP and of servers of the Chat Completions API
providers the rows of outside providers, by wire format
opening   opens the client of one engine (edge)
session   `EngineSession`: an engine for programs, its outputs by `async for` (edge)
"""
