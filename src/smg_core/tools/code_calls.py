"""The built-in tool that runs code: in containers, or by a server of the configuration that stands for it (edge).

Decides who may use containers, and how results of such a server are told. The permission is `tool:code_interpreter`, of a server
that of its tool. Above: `built_ins`. Below: the role of who runs code.
"""

from collections.abc import Mapping

from smg_core.built_in import BuiltIn
from smg_core.errors import NotFound
from smg_core.pipeline.tools.hosted import ToolAnswer, ToolServer
from smg_core.request import Caller, Text
from smg_core.tools.code_runs import CodeAnswer, CodeRuns
from smg_mcp.records.base import ToolOutcome

__all__ = ["CODE_INTERPRETER", "CodeCalls", "answer_of_server"]

CODE_INTERPRETER = "code_interpreter"
"""The permission to run code in containers by a tool."""


class CodeCalls:
    """Runs code in the containers of one gateway for models; None where it has none."""

    def __init__(self, runs: CodeRuns | None) -> None:
        self._runs = runs

    def of(self, caller: Caller) -> CodeRuns | None:
        """What runs code for the caller; None where it may not use containers, or there are none."""
        return self._runs if self._runs is not None and caller.grants.may_call(CODE_INTERPRETER) else None

    @staticmethod
    async def check(runs: CodeRuns, server: ToolServer, asked: BuiltIn, caller: Caller) -> None:
        """Raise NotFound for a container that is not there, with its place in the request."""
        try:
            await runs.check(caller, asked)
        except NotFound as error:
            error.param = f"{server.at}.container"
            raise

    @staticmethod
    async def run(runs: CodeRuns, asked: BuiltIn, code: str, caller: Caller, request_id: str) -> ToolAnswer:
        """Run code in a container. Raises SmgError."""
        try:
            ran = await runs.run(caller, asked, code, request_id)
        except NotFound as error:
            return ToolAnswer((Text(error.message),), is_error=True, code="container_gone")
        return ToolAnswer((Text(ran.text),), ran.stopped is not None, ran.as_object, code=ran.stopped or "")


def answer_of_server(server: str, outcome: ToolOutcome) -> ToolAnswer:
    """What a server has given that ran code: its text, or `stdout` and `stderr` of its structured result."""
    fields = outcome.structured if isinstance(outcome.structured, Mapping) else {}
    out, err = fields.get("stdout"), fields.get("stderr")
    if not isinstance(out, str):
        out, err = ("", outcome.text) if outcome.is_error else (outcome.text, "")
    error = outcome.text if outcome.is_error else None
    ran = CodeAnswer(f"mcp_{server}", out, err if isinstance(err, str) else "", error)
    return ToolAnswer((Text(outcome.text or ran.text),), False, ran.as_object)
