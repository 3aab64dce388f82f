"""Tools that run in the gateway, by the package smg_mcp."""
