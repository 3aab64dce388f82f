"""Pictures, clips and recordings of a request, in the order in which the prompt will have them.

Decides which parts are media, where in the request each stands (for errors), and refuses by name what a model does not take.
`MediaService` is the interface to the code that fetches and processes them (`models.media_service`): the pipeline hands it
items, and gets token ids and an opaque record for the engine. Pure. Above: prepare, preparing and streaming. Below: the
request's records. Knows no format, no tensor and no family of models.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs

from smg_core.engines.base import EngineFacts, Pixels, RequestMedia
from smg_core.errors import UnsupportedParameter
from smg_core.request import Audio, File, Image, MediaSource, Message, Part, ToolResult, Video
from smg_core.speech import Transcription
from smg_core.tokens import TokenIds

__all__ = [
    "MEDIA_KINDS",
    "MediaItem",
    "MediaService",
    "PlacedMedia",
    "SharedInputs",
    "is_pdf",
    "may_have_pictures",
    "media_of",
    "refuse_mixture",
    "refuse_unless_taken",
    "suggests_media",
    "wanted_pixels",
]

_KINDS: Mapping[type, str] = {Image: "image", Audio: "audio", Video: "video", File: "file"}
MEDIA_KINDS = frozenset(_KINDS.values())
"""All kinds of media: what an engine that reads prompts itself may take, as far as the gateway knows."""
_HOLDERS = frozenset({*_KINDS, ToolResult})
_NAMES = {"image": "images", "audio": "audio", "video": "videos", "file": "files"}

_PDF = "application/pdf"
_PDF_BEGINS = ("JVBERi", "%PDF-", "%25PDF-")
"""The first bytes of a PDF as data: URLs have them: in base64, as they are, and percent-encoded."""

_LONGEST_ADDRESS = 8192
"""Characters of an address whose end is looked at; a longer one is not fetched."""

_FILES = frozenset({"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"})
_SECTIONS = ("vision", "visual", "audio")


@attrs.frozen
class MediaItem:
    """One medium. `kind` is "image", "video", "audio" or "file"; `param` is the path of its part in the request; `detail` is
    what the client asked for a picture, `format` the name it gave a recording's format; `part` as of `Transcription`."""

    kind: str
    source: MediaSource
    param: str
    detail: str = "auto"
    format: str | None = None
    part: tuple[int, int] | None = None


@attrs.frozen
class PlacedMedia:
    """The prompt with every placeholder expanded (`ids`), and `features`, of which `MediaService.pack` makes an engine's message.
    `keys` are for routing: one number per token; for a medium's tokens they are words of its hash, since the ids of all pictures
    are the same. `starts` says at which token each medium begins, with its hash as hex: by that name engines know it. `tokens`:
    how many each kind of media has, markers and separators too; None where they were not counted. `most`: how many tokens the
    answer has at most, where it ends with what is heard."""

    ids: TokenIds
    features: Any
    keys: Sequence[int] = attrs.field(repr=False)
    starts: Sequence[tuple[int, str]] = ()
    tokens: Mapping[str, int] | None = None
    most: int | None = None


class SharedInputs(Protocol):
    """Media for one engine call, with tensors in shared memory. `inputs` goes into `EngineRequest.multimodal`."""

    @property
    def inputs(self) -> RequestMedia: ...

    def release(self) -> None:
        """Free the shared memory. Called when the call is over, however it ended; may be called again."""
        ...


class MediaService(Protocol):
    """What one model does with media. Errors are this package's, `param` naming the part at fault."""

    @property
    def kinds(self) -> frozenset[str]:
        """Those of "image", "video" and "audio" that the model takes; an engine may take fewer (`EngineFacts.media`)."""
        ...

    @property
    def dictates(self) -> bool:
        """Whether the model writes recordings down and does nothing else: its prompts are what `dictated` writes."""
        ...

    def dictated(self, asked: Transcription) -> TokenIds:
        """The prompt of a model that `dictates`. Raises UnsupportedParameter for what the model cannot be asked, and
        LanguageUnknown where it has to know the language first."""
        ...

    @property
    def languages(self) -> frozenset[int]:
        """The tokens of the languages that a model which `dictates` tells apart."""
        ...

    async def load(
        self, items: Sequence[MediaItem], *, pixels: Pixels, tenant: str, check: Callable[[int], None]
    ) -> Any:
        """Fetch and process `items`, several at the same time, computing off the event loop; returns an object for `place`.
        `pixels`: the form that the engine probably wants. `tenant`: who asks, for a fair share of memory and processes. `check`
        is called before anything is decoded, with the least number of tokens that the media will have; it raises if those are too
        many. The memory stays reserved as long as the returned object lives."""
        ...

    async def place(self, ids: TokenIds, loaded: Any) -> PlacedMedia:
        """Expand the prompt's placeholders for `loaded`."""
        ...

    async def pack(self, features: Any, facts: EngineFacts) -> RequestMedia:
        """The message for engines of these facts, for `EngineRequest.multimodal`."""
        ...

    async def share(self, inputs: RequestMedia, facts: EngineFacts) -> SharedInputs | None:
        """Put the tensors of `inputs` into shared memory for one call; None if the engine cannot read this host's shared memory
        or there is no room: then `inputs` are sent as they are."""
        ...

    def refuse_strays(self, ids: TokenIds) -> None:
        """Raise InvalidRequest if a prompt without media has a placeholder token: engines fail on it."""
        ...


def wanted_pixels(kinds: Iterable[EngineFacts]) -> Pixels:
    """The form of pictures for a model's engines: `kinds` are the facts of all of them, and the worker is not chosen yet."""
    found = tuple(kinds)
    by_torch = any(facts.resizes == "torch" for facts in found)
    floats = {facts.floats for facts in found}
    return Pixels(
        any(facts.normalizes for facts in found),
        "torch" if by_torch else "pil",
        found[0].floats if len(floats) == 1 else "float32",
    )


def media_of(messages: Sequence[Message]) -> list[MediaItem]:
    """All media, in prompt order: within a message, tool results come before the message's own content, as templates
    render them."""
    found: list[MediaItem] = []
    for place, message in enumerate(messages):
        if message.content_is_text:  # nearly every turn
            continue
        for part in message.parts:
            if type(part) in _HOLDERS:
                found += _in_message(message, place)
                break
    return found


def _in_message(message: Message, place: int) -> Iterator[MediaItem]:
    own = f"messages[{place}].parts"
    for order, part in enumerate(message.parts):
        if isinstance(part, ToolResult):
            yield from _in_parts(part.content, f"{own}[{order}].content")
    yield from _in_parts(message.parts, own)


def _in_parts(parts: Sequence[Part], at: str) -> Iterator[MediaItem]:
    more = 0  # parts before this one that are not the client's own, but pieces of a document
    for order, part in enumerate(parts):
        if isinstance(part, Image | Audio | Video | File):
            detail, place = "auto", order - more
            if isinstance(part, Image):
                detail = part.detail
                if part.of_document:
                    place -= 1
                    more += part.of_document
            written = part.format if isinstance(part, Audio) else None
            yield MediaItem(_KINDS[type(part)], part.source, f"{at}[{place}]", detail, written)


def may_have_pictures(
    items: Sequence[MediaItem], taken: frozenset[str], kinds: Iterable[EngineFacts], *, passed: bool
) -> bool:
    """Whether pictures may be added to a request that has `items`: its model takes the kinds `taken`, and each of its engines, of
    the facts `kinds`, takes pictures beside what is there. An engine that reads prompts itself (`passed`) has to say so."""
    together = {"image", *(item.kind for item in items if item.kind != "file")}
    found = tuple(kinds)
    for facts in found:
        if passed if facts.media is None else "image" not in facts.media:
            return False
        if len(together) > 1 and not together <= facts.media_together:
            return False
    return bool(found) and "image" in taken


def refuse_unless_taken(items: Sequence[MediaItem], model: str, kinds: frozenset[str], why: str = "") -> None:
    """Raise UnsupportedParameter for the first item whose kind is not among `kinds`, or that is an uploaded file. `why` is the
    reason, where the model takes nothing at all."""
    for item in items:
        if item.kind not in kinds:
            pdf = item.kind == "file" and is_pdf(item.source)
            hint = ": PDF is not read here, so send the document's text" if pdf else f": {why}" if why else ""
            raise UnsupportedParameter(
                f"The model '{model}' does not take {_NAMES[item.kind]}{hint}.", param=item.param
            )
        if item.source.file_id is not None:
            raise UnsupportedParameter(
                "Uploaded files cannot be referred to here; send a URL or the data.", param=item.param
            )


def is_pdf(source: MediaSource) -> bool:
    """Whether a file says that it is PDF: by its type, by its first bytes, or by the end of its address."""
    if source.media_type is not None and source.media_type.lower().startswith(_PDF):
        return True
    if source.data is not None:
        return source.data.startswith(b"%PDF-")
    url = source.url or ""
    if url[:5].lower() != "data:":
        return len(url) <= _LONGEST_ADDRESS and url.partition("#")[0].partition("?")[0][-4:].lower() == ".pdf"
    comma = url.find(",")
    return url[5 : 5 + len(_PDF)].lower() == _PDF or url.startswith(_PDF_BEGINS, comma + 1)


def refuse_mixture(items: Sequence[MediaItem], together: frozenset[str]) -> None:
    """Raise UnsupportedParameter if the items are of several kinds that may not all be in one request."""
    kinds = {item.kind for item in items}
    if len(kinds) > 1 and not kinds <= together:
        odd = next(item for item in items if item.kind != items[0].kind)
        raise UnsupportedParameter(
            f"This model's engine does not take {_NAMES[odd.kind]} and {_NAMES[items[0].kind]} in one request.",
            param=odd.param,
        )


def suggests_media(config: Mapping[str, object], files: Sequence[str]) -> bool:
    """A guess from a model's config.json and the names of its files, whether it takes media. Cheap, so that a text model costs
    nothing; the media service finds out for certain."""
    return not _FILES.isdisjoint(files) or any(word in key for key in config for word in _SECTIONS)
