"""From the text or mapping of a configuration to the settings of MCP servers.

Begin with `mapping`; `text` reads JSON and YAML that a person wrote, which the gateway's other files are read by too. Pure.
"""
