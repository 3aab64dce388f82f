"""The table of generating APIs: how each decodes a request and encodes its answer.

An API is a value of `Api` here and a route in `app.generating_routes`. Above: the handler in `serving.inference`. Below: the
protocols.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Protocol, TypeVar

import attrs

from smg_core.errors import SmgError
from smg_core.events import Usage
from smg_core.pipeline.flow.flow import Terms, respond, respond_together
from smg_core.pipeline.flow.steps import Flow
from smg_core.pipeline.tools.loop import respond_with_tools
from smg_core.request import GenerationRequest
from smg_core.wire.base import Decoded, ErrorEncoder, Incoming, StreamEncoder, WholeEncoder

__all__ = ["Api", "Memory", "Parts", "SeveralDecoded", "each_prompt", "one_turn", "usual_status"]

D = TypeVar("D", bound=Decoded)


class Memory(Protocol[D]):
    """What an API with history does before a request is answered and before its answer is complete."""

    def concerns(self, decoded: D) -> bool:
        """Whether there is anything to recall or to keep. Where there is not, nothing else is called."""
        ...

    async def recall(self, decoded: D) -> D:
        """The request with the history that it continues. Raises what is wrong with that."""
        ...

    async def keep(self, decoded: D, encoder: StreamEncoder | WholeEncoder, *, cut: bool = False) -> None:
        """Keep the answer, which `encoder` has made whole; called before its last bytes leave. `cut`: its client has left, and
        it ends here. A failure to keep it does not cost the client its answer: it is logged."""
        ...

    async def forget(self, decoded: D) -> None:
        """The request is over, whatever came of it: let go of what `recall` has taken."""
        ...


def one_turn(decoded: Decoded, terms: Terms) -> Flow[object]:
    """The flow of an API that remembers nothing: one turn of the model, or as many as its hosted tools take."""
    return respond_with_tools(decoded.generation, terms)


class SeveralDecoded(Decoded, Protocol):
    """A request that is several: one for each of its prompts."""

    @property
    def generations(self) -> Sequence[GenerationRequest]: ...
    @property
    def at_once(self) -> int: ...


def each_prompt(decoded: SeveralDecoded, terms: Terms) -> Flow[object]:
    """The flow of an API whose body may have several prompts: a turn for each, `at_once` of them at the same time."""
    if len(decoded.generations) == 1:
        return respond(decoded.generation, terms)
    return respond_together(decoded.generations, decoded.at_once, terms)


def usual_status(error: SmgError) -> int:
    """The HTTP status of an error in an API that has none of its own."""
    return error.status


@attrs.frozen
class Parts(Generic[D]):
    """How the answer to a request is put together that is several requests (`respond_together`): how many there are, the encoder
    of the streamed and of the whole part at each place, and the body that whole parts make together."""

    count: Callable[[D], int]
    stream: Callable[[D, int, int], StreamEncoder]
    whole: Callable[[D, int, int], WholeEncoder]
    merge: Callable[[D, int, Sequence[bytes], Usage], bytes]


@attrs.frozen
class Api(Generic[D]):
    """One public API: a name for logs, the prefix of its ids, its four conversions, and the flow of its answers.

    `decode` makes a request of the API's own type `D`; `stream` and `whole` make the encoder of one answer to it, given the time
    of the answer in seconds since the epoch. `flow` is what is done for a request, from its history to the end of its answer.
    `parts` is for an API whose request may be several; the performers of steps that only this API's flow asks for are given to
    `Gateway.perform`. A failure of a stream with one of the statuses `refusals_in_stream` is told inside of it even where nothing
    has gone out: clients try again less often then; with `answers_blocked` so is that a guardrail holds the request back, which
    is an answer of such an API and no error. `status` is the HTTP status of an error; `id_header` a further header that names the
    request, for SDKs that read that alone. `memory` is what an API with history has. `takes_media`: its bodies may be as large as
    those with media, whatever models are served. `limit_headers`: whose headers say how much is left of limits."""

    name: str
    id_prefix: str
    decode: Callable[[Incoming], D]
    stream: Callable[[D, int], StreamEncoder]
    whole: Callable[[D, int], WholeEncoder]
    error: ErrorEncoder
    flow: Callable[[D, Terms], Flow[object]] = one_turn
    parts: Parts[D] | None = None
    refusals_in_stream: tuple[int, ...] = ()
    answers_blocked: bool = False
    status: Callable[[SmgError], int] = usual_status
    id_header: bytes | None = None
    memory: "Memory[D] | None" = None
    takes_media: bool = False
    limit_headers: Literal["openai", "anthropic"] = "openai"
