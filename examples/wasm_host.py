"""A WebAssembly component as a middleware, without a gateway: numbers are taken out of what a model says, piece by piece.

python examples/wasm_host.py
"""

import asyncio
from inspect import isawaitable
from pathlib import Path

from smg_core.wasm import About, AnswerPiece, ChangeText, WasmHost

COMPONENT = Path(__file__).parent / "plugins" / "redaction" / "redact_numbers.wasm"


async def main() -> None:
    async with WasmHost() as host:
        plugin = await host.load(COMPONENT, {"digits": 7})
        print(plugin.name, "has the hooks", *sorted(plugin.hooks))
        session = plugin.begin(About("request-1", "POST", "/v1/chat/completions", tenant="acme"))
        try:
            for text in ("Call 555-", "0199 123", " today.", ""):
                verdict = session.on_piece(AnswerPiece(text, "text", last=not text))
                if isawaitable(verdict):  # the component takes longer, in a thread
                    verdict = await verdict
                print(repr(text), "->", repr(verdict.text if isinstance(verdict, ChangeText) else text))
        finally:
            session.close()


if __name__ == "__main__":
    asyncio.run(main())
