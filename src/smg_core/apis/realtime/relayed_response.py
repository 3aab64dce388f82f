"""One response of a session that is passed through, as a request of this gateway (edge).

It is admitted, timed and accounted for as any other. Its events have left already, as its server tells them; what is told of
tools that run here is its encoder's. Above: the session that is passed through. Below: the flow of a response with such tools.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

import attrs
import msgspec

from smg_core.apis.realtime.injecting import InjectedResponse
from smg_core.apis.realtime.merged import MergedResponse
from smg_core.apis.realtime.wire.encode import error_object
from smg_core.apis.realtime.wire.relayed import RelayedRequest, SentEvent, asking_of
from smg_core.engines.realtime.turn import RelayedTurn, RelayedTurns
from smg_core.errors import InternalError, SmgError
from smg_core.events import Event, Failed, Finished, HostedEnd, HostedStart
from smg_core.http.scope import Disconnect
from smg_core.json_types import JsonObject
from smg_core.pipeline.flow.flow import Terms
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.tools.loop import respond_with_tools
from smg_core.request import Tool
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.services import Services
from smg_core.wire.errors import responses_error

__all__ = ["RelayedEncoder", "RelayedResponse", "relayed_api", "relayed_handler"]


class RelayedEncoder:
    """The encoder of a response whose events have left already: writes what is told of tools that run here, and keeps the `error`
    that it ends with. `merged` is there where tools run here; `answers` are the calls that are over, with their outputs."""

    content_type = "application/x-ndjson"

    def __init__(self) -> None:
        self.error: SmgError | None = None
        self.merged: MergedResponse | None = None
        self.answers: list[tuple[str, str]] = []
        self._reason = "stop"

    def start(self) -> bytes:
        """Nothing."""
        return b""

    def keep_alive(self) -> bytes:
        """Nothing: a connection is kept alive by pings."""
        return b""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The events about tools that run here, one a line."""
        lines: list[bytes] = []
        for event in events:
            if isinstance(event, Failed):
                self.error = event.error
            elif isinstance(event, Finished):
                self._reason = event.reason
            elif self.merged is not None and isinstance(event, HostedStart):
                lines += self.merged.starts(event)
            elif self.merged is not None and isinstance(event, HostedEnd):
                ended = self.merged.ends(event)
                if ended is not None:
                    lines += ended[0]
                    self.answers.append(ended[1:])
        return b"\n".join(lines)

    def done(self, merged: MergedResponse, cut: str) -> bytes:
        """The end of a response that ends here, and not at its server: one that was `cut`, failed, or has reached a bound."""
        if cut:
            return merged.done("cancelled", {"reason": cut})
        if self.error is not None:
            return merged.done("failed", {"error": error_object(self.error)})
        if self._reason in ("stop", "tool_calls"):
            return merged.done()
        return merged.done("incomplete", {"reason": "max_output_tokens"})


@attrs.define(eq=False)
class RelayedResponse:
    """A response under way: its calls of the server, the event that told of its beginning, what is left of limits with it, and
    what it was refused with. `waited` is set once it is known whether it may be made; `event_id` is that of the event that asks
    for it; `reported`: the server has told of its failure. `asked` has what its client has asked, `cut` why it was cut off, and
    `over` is whether its request is."""

    calls: RelayedTurns
    about: SentEvent | None
    asked: InjectedResponse
    event_id: str = ""
    created: bytes = b""
    left: Callable[[], list[JsonObject]] = list
    refused: bytes = b""
    reported: bool = False
    cut: str = ""
    over: bool = False
    heard: RelayedEncoder = attrs.field(factory=RelayedEncoder)
    waited: asyncio.Event = attrs.field(factory=asyncio.Event)
    disconnect: Disconnect = attrs.field(factory=Disconnect)
    task: "asyncio.Task[None] | None" = None

    @property
    def call(self) -> RelayedTurn:
        """The newest call of the server."""
        return self.calls.turn

    @property
    def merged(self) -> MergedResponse | None:
        """What is told of it, where tools run here."""
        return self.heard.merged

    @property
    def admitted(self) -> bool:
        """Whether it is made, or was."""
        return not self.refused and self.waited.is_set()


async def _not_asked() -> None:
    """A response that nobody makes."""


_UNASKED = RelayedTurns(RelayedTurn(_not_asked, lambda: None, lambda: None))
"""What stands for no response, in the row that the rows of all of them are made of."""


def relayed_handler(services: Services) -> Inference[RelayedRequest]:
    """What answers the requests of all sessions that are passed through, without what each response has of its own."""
    return Inference(services, relayed_api("", "", "", (), _UNASKED, RelayedEncoder()))


def relayed_api(
    model: str, session: str, home: str, tools: tuple[Tool, ...], live: RelayedTurns, heard: RelayedEncoder
) -> Api[RelayedRequest]:
    """The row of the API for one response of a session that is passed through."""

    def once(decoded: RelayedRequest, terms: Terms) -> Flow[object]:
        retries = attrs.evolve(terms.retries, retries=0)
        return respond_with_tools(decoded.generation, msgspec.structs.replace(terms, retries=retries))

    def of_none(decoded: RelayedRequest, created: int) -> NoReturn:
        raise InternalError("A response of a session is always streamed.")

    return Api(
        name="realtime",
        id_prefix="resp_",
        decode=lambda incoming: asking_of(incoming, model, session, home, tools, live),
        stream=lambda decoded, created: heard,
        whole=of_none,
        error=responses_error,
        flow=once,
    )
