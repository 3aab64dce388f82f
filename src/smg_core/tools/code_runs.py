"""The role of a runner of code in containers for tools, and its results for models and clients.

Pure. Above: `built_ins`; the containers of tenants fulfil the role. Below: request.
"""

from typing import Protocol

from msgspec import Struct

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.json_types import Json, JsonObject
from smg_core.request import Caller

__all__ = ["CodeAnswer", "CodeRuns", "MadeFile"]


class MadeFile(Struct, frozen=True):
    """A file that code has made or changed: its id, its path as the code sees it, its size."""

    id: str
    path: str
    bytes: int


class CodeAnswer(Struct, frozen=True):
    """What came of code in a `container`: its outputs, the last line of what it raised, the files that it made. `notes` are
    sentences about the call; `stopped` says that it did not end, and why."""

    container: str
    stdout: str = ""
    stderr: str = ""
    error: str | None = None
    files: tuple[MadeFile, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: FaultCode | None = None
    expires_at: float | None = None

    @property
    def text(self) -> str:
        """What the model is given."""
        outputs = [each.rstrip("\n") for each in (self.stdout, self.stderr) if each]
        if self.files:
            outputs.append(
                "Files made or changed: " + ", ".join(f"{each.path} ({each.bytes} bytes)" for each in self.files)
            )
        return "\n".join([*outputs, *self.notes]) or "The code has ended without output."

    @property
    def as_object(self) -> JsonObject:
        """What the encoders are told."""
        files: list[Json] = [{"id": each.id, "path": each.path} for each in self.files]
        return {
            "container": self.container,
            "stdout": self.stdout,
            "stderr": "\n".join([each for each in (self.stderr.rstrip("\n"), *self.notes) if each]),
            "failed": self.error is not None,
            "files": files,
            "expires_at": self.expires_at,
        }


class CodeRuns(Protocol):
    """Runs code in containers."""

    async def check(self, caller: Caller, asked: BuiltIn) -> None:
        """Raise NotFound for a container that is not there."""
        ...

    async def run(self, caller: Caller, asked: BuiltIn, code: str, request_id: str) -> CodeAnswer:
        """Run code in the container that is asked for, or in that of the response `request_id`. Raises SmgError."""
        ...
