"""Logs each exchange: whose it was, how it ended, and how much was said, without a word of it.

- source: log_exchanges:LogExchanges
"""

import logging
from typing import Any

from smg_core.middleware.base import CONTINUE, About, End, RequestBody, TextVerdict
from smg_core.middleware.python import PythonPlugin

log = logging.getLogger("smg.plugins")


class LogExchanges(PythonPlugin):
    """A line for each exchange that comes to its end, in the log of plugins."""

    def __init__(self, about: About, shared: Any) -> None:
        super().__init__(about, shared)
        self._asked = 0

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        self._asked = len(body.text.encode())
        return CONTINUE

    async def on_end(self, end: End) -> str:
        of, tokens = self.about, end.completion_tokens
        said = "" if tokens is None else f" completion_tokens={tokens}"
        ended = f"outcome={end.outcome} status={end.status} asked_bytes={self._asked}{said}"
        log.info("plugin log_exchanges: tenant=%s principal=%s path=%s %s", of.tenant, of.principal, of.path, ended)
        return ""
