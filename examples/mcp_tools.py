"""The tools of an MCP server, called from a program: no gateway, no model.

pip install 'smg-sdk[mcp]' mcp-server-time && python examples/mcp_tools.py
"""

import asyncio
import sys

from smg_mcp import McpDenied, McpTools

CONFIG = {
    "servers": [{"name": "time", "protocol": "stdio", "command": sys.executable, "args": ["-m", "mcp_server_time"]}],
    "policy": {"default": "deny", "tools": {"time.get_current_time": "allow"}},
}


async def main() -> None:
    async with McpTools.from_config(CONFIG) as tools:
        for tool in await tools.tools():
            print(tool.name)
        outcome = await tools.call("time.get_current_time", {"timezone": "Asia/Tokyo"})
        print("the offset of Tokyo:", outcome.text.partition('"datetime": "')[2][19:25], outcome.is_error)
        try:
            await tools.call("time.convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"})
        except McpDenied as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
