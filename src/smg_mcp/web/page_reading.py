"""Has pages read by a program that is run for each, and ended where it takes too long (edge).

Above: `tools`. Below: `reader`, the program; `reading`.
"""

import asyncio
import contextlib
import math
import sys
from pathlib import Path

import msgspec

from smg_mcp.records.settings import FetchSettings
from smg_mcp.web.fetching import PageRefused
from smg_mcp.web.reading import body_text, is_page

__all__ = ["PageReader"]

_PROGRAM = Path(__file__).with_name("reader.py")


class _Read(msgspec.Struct, frozen=True):
    title: str
    text: str


class PageReader:
    """Reads pages, at most `settings.read_at_once` at the same time. `alone`: without trafilatura, also where it is installed."""

    def __init__(self, settings: FetchSettings, *, alone: bool = False) -> None:
        self._settings, self._alone = settings, alone
        self._places = asyncio.Semaphore(settings.read_at_once)

    async def read(self, body: bytes, content_type: str) -> tuple[str, str]:
        """The title and the text of what was fetched. Raises PageRefused for a page that cannot be read within the bounds."""
        text = body_text(body, content_type)
        if not is_page(content_type):
            return "", text
        settings = self._settings
        try:
            async with asyncio.timeout(settings.read_seconds), self._places:
                output = await self._output_of(text.encode("utf-8", "replace"))
        except TimeoutError:
            raise PageRefused(f"its text could not be found within {settings.read_seconds:g} s") from None
        try:
            found = msgspec.json.decode(output, type=_Read)
        except msgspec.DecodeError:
            raise PageRefused("its text could not be found within the bounds of time and memory") from None
        return found.title, found.text

    async def _output_of(self, page: bytes) -> bytes:
        """What the program writes. It gets nothing of this process's environment and files."""
        seconds = str(math.ceil(self._settings.read_seconds))
        bounds = [seconds, str(self._settings.read_memory), *(["alone"] if self._alone else [])]
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_PROGRAM), *bounds),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        try:
            output, _ = await program.communicate(page)
            return output
        finally:
            if program.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    program.kill()
                await program.wait()
