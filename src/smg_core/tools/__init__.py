"""Tools that run in the gateway, by the package smg_mcp.

Begin with `hosted`, the service; `search` finds tools by words.
"""
