"""The seals of each API's reasoning, and the part of sealed reasoning that goes into a prompt.

A seal holds the text itself, where the client is not shown it (or the API returns it encrypted), or only a digest of the text,
where the client has the text and must not change it. The traits of a request's API say which; one without `seals` has none.

Pure. Above: pipeline.prompt.prepare opens what came in, pipeline.fit.fit has seals made for what goes out. Below: sealer,
request.
"""

import hmac
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Literal

import attrs
from msgspec.structs import replace

from smg_core.errors import SealBroken
from smg_core.events import DroppedReasoning
from smg_core.origin import SEALS_DIGEST, SEALS_INCLUDED
from smg_core.request import GenerationRequest, Message, Opaque, Part, Reasoning, has_trait
from smg_core.sealing.sealer import PREFIX, SealContext, Sealer

__all__ = ["CARRIED", "ReasoningSeals", "sealed_bytes"]

Form = Literal["text", "digest"]
_TEXT, _DIGEST, _CARRIED = b"t", b"d", b"c"
"""The first byte of what is sealed."""
CARRIED = "reasoning"
"""Kind of the `Opaque` that holds a sealed original, in APIs without seals of their own."""
_UNSEALED_API = "carried"  # the purpose of those
ENCRYPTED = "reasoning.encrypted_content"
"""What a request of Responses includes to have its reasoning sealed."""


@attrs.frozen
class ReasoningSeals:
    """The seals of one family of models. `on_broken` as in `SealingConfig`."""

    sealer: Sealer
    family: str
    on_broken: Literal["drop", "refuse_edited", "refuse"] = "drop"

    def sealing(self, request: GenerationRequest) -> Callable[[str], bytes] | None:
        """What makes the seal of a piece of reasoning in the answer to `request`; None where it has none."""
        if request.origin is None or not request.origin.seals:
            return None
        form = self._form(request)
        return None if form is None else partial(self._seal, form, request)

    def _seal(self, form: Form, request: GenerationRequest, text: str) -> bytes:
        """The seal of a piece of reasoning in the answer to `request`."""
        content = _TEXT + text.encode("utf-8", "surrogatepass") if form == "text" else _DIGEST + _digest(text)
        purpose = "" if request.origin is None else request.origin.seals
        return self.sealer.seal(content, SealContext(purpose, request.caller.tenant, self.family))

    def sealed(self, purpose: str, tenant: str, text: str) -> bytes:
        """The seal that holds the text of a piece of reasoning of this tenant: for a client that asks for the seal later, by
        those who have kept the text. `purpose` is what the seals of its API are for (`Origin.seals`)."""
        context = SealContext(purpose, tenant, self.family)
        return self.sealer.seal(_TEXT + text.encode("utf-8", "surrogatepass"), context)

    def carrying(self, request: GenerationRequest) -> Callable[[bytes], bytes]:
        """What seals an outside provider's original in the answer to `request`, whatever its API has of seals."""
        context = self._context(request)
        return lambda original: self.sealer.seal(_CARRIED + original, context)

    @staticmethod
    def _form(request: GenerationRequest) -> Form | None:
        if has_trait(request, SEALS_INCLUDED):
            return "text" if ENCRYPTED in request.include else None
        if has_trait(request, SEALS_DIGEST) and request.reasoning.visible != "sealed":
            return "digest"
        return "text"

    def _context(self, request: GenerationRequest) -> SealContext:
        purpose = request.origin.seals if request.origin is not None else ""
        return SealContext(purpose or _UNSEALED_API, request.caller.tenant, self.family)

    def opened(self, request: GenerationRequest) -> tuple[GenerationRequest, tuple[DroppedReasoning, ...]]:
        """The request with the text of its sealed reasoning in place of the seals, and what was left out because it does not
        open. What is left out becomes a part without text, so that the paths of all others stay. Raises SealBroken where
        `on_broken` says so."""
        context, has_seals = self._context(request), _has_seals(request)
        dropped: list[DroppedReasoning] = []
        messages = list(request.messages)
        for place, message in enumerate(messages):
            if any(_seal_of(part, has_seals=has_seals) is not None for part in message.parts):
                messages[place] = self._message(message, place, context, dropped, has_seals=has_seals)
        return replace(request, messages=tuple(messages)), tuple(dropped)

    def _message(
        self, message: Message, place: int, context: SealContext, dropped: list[DroppedReasoning], *, has_seals: bool
    ) -> Message:
        parts: list[Part] = []
        for order, part in enumerate(message.parts):
            if (seal := _seal_of(part, has_seals=has_seals)) is not None:
                path = f"messages[{place}].parts[{order}]"
                part = part if isinstance(part, Reasoning) else Reasoning("", visible=False)
                try:
                    part = self._opened(part, seal, context)
                except SealBroken as broken:
                    if self._refused(broken):
                        broken.param = path
                        raise
                    dropped.append(DroppedReasoning(path, broken.reason, part.id))
                    part = replace(part, text="", summary=(), seal=None)
            parts.append(part)
        return replace(message, parts=tuple(parts))

    def _refused(self, broken: SealBroken) -> bool:
        return self.on_broken == "refuse" or (self.on_broken == "refuse_edited" and broken.reason == "edited")

    def _opened(self, part: Reasoning, seal: bytes, context: SealContext) -> Reasoning:
        """The part with what `seal` stands for: a text, or a provider's original. Raises SealBroken."""
        content, visible = self.sealer.open(seal, context), part.text
        kind, body = content[:1], content[1:]
        if kind == _CARRIED:
            return replace(part, seal=None, carried=body)
        if kind == _DIGEST:
            if not hmac.compare_digest(body, _digest(visible)):
                raise SealBroken("edited")
            return replace(part, seal=None)
        text = body.decode("utf-8", "surrogatepass")
        if visible and visible != text:
            raise SealBroken("edited")
        return replace(part, text=text, seal=None)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def sealed_bytes(request: GenerationRequest) -> int:
    """The bytes that opening the seals of a request has to go through; 0 where there are none, as in nearly all requests."""
    has_seals = _has_seals(request)
    return sum(
        len(seal) + (len(part.text) if isinstance(part, Reasoning) else 0)
        for message in request.messages
        if message.role == "assistant"
        for part in message.parts
        if (seal := _seal_of(part, has_seals=has_seals)) is not None
    )


def _has_seals(request: GenerationRequest) -> bool:
    return request.origin is not None and bool(request.origin.seals)


def _seal_of(part: Part, *, has_seals: bool) -> bytes | None:
    """The token that a part holds, if it is one that this gateway may have made; `has_seals`: the API has seals of its own."""
    if isinstance(part, Reasoning):
        return part.seal if has_seals else None
    if isinstance(part, Opaque) and part.kind == CARRIED and part.payload.startswith(PREFIX):
        return part.payload
    return None
