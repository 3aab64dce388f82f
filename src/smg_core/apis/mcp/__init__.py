"""The gateway as an MCP server, at `/mcp`: its tools, resources and prompts under identity, permissions, limits and audit.

Begin with `routes` (edge), the row, which loads `server` (edge); `wire` reads and writes the messages of each version of the
protocol, `answers` (edge) answers requests, `calls` (edge) holds those that run, `changes` (edge) tells what has changed.
"""
