"""The transports to MCP servers: the only code of smg_mcp that opens sockets and processes.

Begin with `connection` (edge): one open connection. `wire` sends HTTP and `stdio` starts child processes; `origin` and `egress`
say which addresses may be asked; `oauth` gets tokens; every message passes `screening` before the mcp package acts on it.
"""
