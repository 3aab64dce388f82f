"""The fields of a request that a format writes, and the refusal of all others by name.

A field that is in none of a format's tables and is set to anything but its default is refused by its path: so a field that the
vocabulary gains later is refused until somebody writes it, and never dropped. Pure. Above: the encoders. Below: the vocabulary.
"""

from collections.abc import Mapping

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from smg_core.engines.vendors.losses import Losses, not_for
from smg_core.engines.vendors.provider_json import ProviderJson
from smg_core.request import (
    Audio,
    CustomTool,
    File,
    FunctionTool,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    Opaque,
    Reasoning,
    ReasoningSettings,
    Refusal,
    Sampling,
    SchemaFormat,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    Video,
)

__all__ = ["GATEWAY_FIELDS", "RECORDS", "WrittenFields", "put_own_fields", "verbosity_of"]

GATEWAY_FIELDS: Mapping[type, frozenset[str]] = {
    GenerationRequest: frozenset({"id", "headers", "caller", "origin", "history", "stream", "background", "include"})
    | {"max_tool_calls", "session_key", "deadline_s", "size", "transcription", "written", "metadata"},
    Message: frozenset({"id", "status", "phase", "content_is_text"}),
    Reasoning: frozenset({"id", "summary", "seal", "visible", "cache"}),
    ToolCall: frozenset({"item_id"}),
    SchemaFormat: frozenset({"strength"}),
}
"""Fields that the gateway acts on itself, and ids of the client's items: no provider need know them. `metadata` is kept, and
given back, by the gateway."""

RECORDS: tuple[type[Struct], ...] = (
    *(
        GenerationRequest,
        Sampling,
        ReasoningSettings,
        SchemaFormat,
        ToolChoice,
        FunctionTool,
        CustomTool,
        Message,
        Text,
    ),
    *(Image, Audio, Video, File, MediaSource, Reasoning, Opaque, Refusal, ToolCall, ToolResult),
)
"""The records that a request is made of."""


class WrittenFields:
    """The fields that the encoder of one `provider` reads, by record; those of a record without a row are all read."""

    __slots__ = ("_provider", "_rest", "written")

    def __init__(self, provider: str, written: Mapping[type, frozenset[str]]) -> None:
        self._provider = provider
        self.written = written
        self._rest: dict[type, tuple[tuple[str, object], ...]] = {
            kind: _unwritten(kind, written[kind]) for kind in RECORDS if kind in written
        }

    def check(self, record: object, path: str) -> None:
        """Raise UnsupportedParameter where `record` sets a field that is not written. `path` is the record's, "" for the
        request."""
        for name, default in self._rest.get(type(record), ()):
            if getattr(record, name) != default:
                raise not_for(f"{path}.{name}" if path else name, self._provider)


def _unwritten(kind: type[Struct], written: frozenset[str]) -> tuple[tuple[str, object], ...]:
    known = written | GATEWAY_FIELDS.get(kind, frozenset())
    return tuple((field.name, _default(field)) for field in fields(kind) if field.name not in known)


def _default(field: FieldInfo) -> object:
    return field.default if field.default is not NODEFAULT else field.default_factory()


_BINDING = frozenset({"inference_geo"})
"""Fields of one provider that no other may pass over: where the answer is to be made."""


def put_own_fields(request: GenerationRequest, api: str, body: ProviderJson, losses: Losses, provider: str) -> None:
    """Put the fields that the API's own provider alone can honour into the body of that provider; another one is not sent them,
    which is noted, or refused where they bind. `api` is the provider's own."""
    own = request.origin is not None and request.origin.api == api
    for name, value in request.own_fields.items():
        if own:
            body.setdefault(name, value)
        elif name in _BINDING:
            raise not_for(f"own_fields.{name}", provider)
        else:
            losses.note(name, "not sent")


def verbosity_of(request: GenerationRequest, provider: str) -> str | None:
    """How long the answer is to be, where the request says so. Raises UnsupportedParameter for other variables of templates."""
    for name in request.template_arguments:
        if name != "verbosity":
            raise not_for(f"template_arguments.{name}", provider)
    verbosity = request.template_arguments.get("verbosity")
    return verbosity if isinstance(verbosity, str) else request.verbosity
