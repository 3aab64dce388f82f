"""The opening of sessions at servers of each kind, and the proof of a session (edge).

OpenAI's own form, which Azure and others have too, is passed on as it is; Gemini Live's is translated. Above: the engine and the
rows of kinds. Below: the connections.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from smg_core.engines.realtime.connection import PeerSocket

__all__ = ["GEMINI_LIVE", "OPENAI_REALTIME", "VERTEX_LIVE", "GeminiForm", "OpenAiForm", "SessionForm", "SessionSocket"]


class SessionSocket(Protocol):
    """A session that is open, in the events of the Realtime API."""

    @property
    def closed_well(self) -> bool:
        """Whether the server has closed the session as it should."""
        ...

    async def send(self, text: bytes) -> None:
        """Send an event, once the server reads. Raises WorkerError."""
        ...

    async def receive(self) -> bytes:
        """The next event. Raises WorkerGone once the session is over."""
        ...

    async def close(self) -> None:
        """End the session there."""
        ...


class SessionForm(Protocol):
    """One kind of server."""

    @property
    def dialect(self) -> str:
        """The name of the workers' dialect."""
        ...

    def asked(self, api: str, model: str, intent: str) -> tuple[str, Sequence[tuple[str, str]]]:
        """The path and the query of a handshake, for a server whose API lies below `api`."""
        ...

    def session(
        self,
        socket: "PeerSocket",
        api: str,
        model: str,
        session: str,
        again: "Callable[[], Awaitable[PeerSocket]]",
        seconds: float,
    ) -> SessionSocket:
        """The session on a connection, called `session` here; `again` opens another connection."""
        ...


@attrs.frozen
class OpenAiForm:
    """Servers that speak the Realtime API itself."""

    dialect: str = "openai-realtime"

    def asked(self, api: str, model: str, intent: str) -> tuple[str, Sequence[tuple[str, str]]]:
        return f"{api}/realtime", [("intent", intent)] if intent else [("model", model)]

    def session(
        self,
        socket: "PeerSocket",
        api: str,
        model: str,
        session: str,
        again: "Callable[[], Awaitable[PeerSocket]]",
        seconds: float,
    ) -> SessionSocket:
        return socket


@attrs.frozen
class GeminiForm:
    """Servers of Gemini Live: Google's, and with `vertex` those of Vertex AI."""

    dialect: str
    vertex: bool = False

    def asked(self, api: str, model: str, intent: str) -> tuple[str, Sequence[tuple[str, str]]]:
        version = api.split("/")[1] if api.count("/") else "v1"
        service = (
            f"google.cloud.aiplatform.{version}.LlmBidiService"
            if self.vertex
            else f"google.ai.generativelanguage.{version}.GenerativeService"
        )
        joint = "/" if self.vertex else "."
        return f"/ws/{service}{joint}BidiGenerateContent", []

    def session(
        self,
        socket: "PeerSocket",
        api: str,
        model: str,
        session: str,
        again: "Callable[[], Awaitable[PeerSocket]]",
        seconds: float,
    ) -> SessionSocket:
        from smg_core.engines.realtime.live_socket import LiveSocket
        from smg_core.engines.realtime.live_translation import LiveTranslation

        count = 0

        def names(prefix: str) -> str:
            nonlocal count
            count += 1
            return f"{prefix}{session.removeprefix('sess_')}g{count:x}"

        return LiveSocket(socket, LiveTranslation(session, self._name(api, model), names), again, seconds)

    def _name(self, api: str, model: str) -> str:
        """The model as a setup names it."""
        if not self.vertex:
            return model if "/" in model else f"models/{model}"
        place = "/".join(api.strip("/").split("/")[1:])
        below = model if "/" in model else f"publishers/google/models/{model}"
        return f"{place}/{below}" if place and not model.startswith("projects/") else below


OPENAI_REALTIME = OpenAiForm()
GEMINI_LIVE = GeminiForm("gemini-live")
VERTEX_LIVE = GeminiForm("vertex-live", vertex=True)
