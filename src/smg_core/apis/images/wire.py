"""The bodies of POST /v1/images/generations (JSON) and /v1/images/edits (a form).

What is asked goes to an engine that has the same routes; what only some of them know (quality, style, frames) is checked against
the API's own words and told as it is. Pictures come back as base64 alone: `response_format` "url" is refused. Pure. Above: the
routes, the tool that makes pictures. Below: the wire's decoding, the reader of forms, request.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.image_terms import check_image_terms
from smg_core.imaging import GivenPicture, Imaging
from smg_core.json_types import Json, JsonObject
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Message, Text
from smg_core.wire.base import Incoming
from smg_core.wire.decoding import WireDecoder, brief
from smg_core.wire.multipart import FormReader, FormUpload
from smg_core.wire.scalars import ModelName

__all__ = [
    "ImageEditBody",
    "ImagesBody",
    "ImagesRequest",
    "check_image_terms",
    "decode_edit",
    "decode_images",
    "picture_given",
]

_ORIGIN, _EDIT_ORIGIN = Origin("images"), Origin("image_edits")
_PROMPT = 32_000  # characters, as OpenAI has it
_MOST, _PARTIAL = 10, 3  # pictures of one request, and earlier states of each: OpenAI's own
_GIVEN, _GIVEN_BYTES, _MASK_BYTES = 16, 50 * 1024 * 1024, 4 * 1024 * 1024
_FIELDS, _FIELD_BYTES = 32, 128 * 1024
_FILES = frozenset({"image", "image[]", "mask"})
_NUMBERS = ("n", "output_compression", "partial_images", "frame_count", "frame_duration_ms")
_OWN_FIELDS = ("model", "prompt", "n", "stream", "partial_images", "response_format", "user", "safety_identifier")
_PNG = b"\x89PNG\r\n\x1a\n"
_SIZES_END = 24  # bytes of a PNG up to the end of its width and height

_Quality = Literal["low", "medium", "high", "xhigh", "max", "auto", "standard", "hd"]
_Format = Literal["png", "webp", "jpeg", "gif", "svg"]
_SUPPORTED = {
    "quality": ("low", "medium", "high", "xhigh", "max", "auto", "standard", "hd"),
    "background": ("transparent", "opaque", "auto"),
    "output_format": ("png", "webp", "jpeg", "gif", "svg"),
    "moderation": ("low", "auto"),
    "style": ("vivid", "natural"),
    "input_fidelity": ("high", "low"),
    "complexity": ("low", "medium", "high"),
    "response_format": ("b64_json",),
}


class _Asked(Struct, forbid_unknown_fields=True):
    """What both bodies have."""

    prompt: Annotated[str, Meta(min_length=1, max_length=_PROMPT)]
    model: Annotated[ModelName, Meta(min_length=1)]
    n: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    size: str | None = None
    quality: _Quality | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    output_format: _Format | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: Annotated[int, Meta(ge=2, le=16)] | None = None
    frame_duration_ms: Annotated[int, Meta(ge=1, le=655_350)] | None = None
    partial_images: Annotated[int, Meta(ge=0, le=_PARTIAL)] | None = None
    response_format: Literal["url", "b64_json"] | None = None
    stream: bool | None = None
    svg: JsonObject | None = None
    user: str | None = None
    safety_identifier: str | None = None


class ImagesBody(_Asked, forbid_unknown_fields=True):
    """The body of POST /v1/images/generations."""

    moderation: Literal["low", "auto"] | None = None
    style: Literal["vivid", "natural"] | None = None


class ImageEditBody(_Asked, forbid_unknown_fields=True):
    """The fields of the form of POST /v1/images/edits, beside its files."""

    input_fidelity: Literal["high", "low"] | None = None
    markup: Any = None


_IMAGES = WireDecoder(ImagesBody, _SUPPORTED)
_EDITS = WireDecoder(ImageEditBody, _SUPPORTED)


class ImagesRequest(Struct, frozen=True):
    """A decoded body. `edits`: pictures of the client's are changed."""

    generation: GenerationRequest
    asked: Imaging
    edits: bool = False

    def locate(self, path: str) -> str:
        """The field of the body that `path` in `generation` was read from."""
        return "prompt" if path.startswith("messages") else path.removeprefix("imaging.")


def decode_images(incoming: Incoming) -> ImagesRequest:
    """Decode the body of a request for new pictures. Raises InvalidJson, InvalidRequest and UnsupportedParameter."""
    body = _IMAGES.decode(incoming.body, incoming.limits, incoming.compat)
    return _request(incoming, body, (), None)


def decode_edit(incoming: Incoming) -> ImagesRequest:
    """Decode the form of a request to change pictures. Raises UnsupportedMedia, InvalidRequest, UnsupportedParameter."""
    content_type = incoming.headers.get("content-type", "")
    form = FormReader(content_type, _nowhere, most=_FIELDS + _GIVEN, most_bytes=_FIELD_BYTES, files=_FILES)
    form.feed(incoming.body)
    form.end()
    plain: dict[str, Json] = {name: _of_form(name, text) for name, text in form.fields.items()}
    if any(name.partition("[")[0] in ("svg", "markup") for name in plain):
        name = next(name for name in plain if name.partition("[")[0] in ("svg", "markup"))
        raise UnsupportedParameter(f"'{brief(name)}' is not taken here.", param=brief(name))
    body = _EDITS.decode_plain(plain, incoming.compat)
    given = [each for each in form.uploads if each.field != "mask"]
    masks = [each for each in form.uploads if each.field == "mask"]
    if not given:
        raise InvalidRequest("Missing required parameter: 'image'.", param="image", code="missing_required_parameter")
    if len(given) > _GIVEN or len(masks) > 1:
        at, most = ("image", _GIVEN) if len(given) > _GIVEN else ("mask", 1)
        raise InvalidRequest(f"Invalid '{at}': at most {most} are taken.", param=at, code="array_above_max_length")
    pictures = tuple([_upload(each, "image", _GIVEN_BYTES) for each in given])
    mask = _upload(masks[0], "mask", _MASK_BYTES) if masks else None
    if mask is not None:
        _check_mask(pictures[0], mask)
    return _request(incoming, body, pictures, mask)


def _nowhere(data: bytes) -> None:
    """The form has no other file than those that are kept."""


def _of_form(name: str, text: str) -> Json:
    """A field of the form as JSON has it; what does not fit stays a text, which is refused as one."""
    if name in _NUMBERS and text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return text.lower() == "true" if name == "stream" and text.lower() in ("true", "false") else text


def _upload(file: FormUpload, at: str, most: int) -> GivenPicture:
    if len(file.data) > most:
        raise InvalidRequest(f"Invalid '{at}': {len(file.data)} bytes, and at most {most} are taken.", param=at)
    return picture_given(bytes(file.data), at, file.filename)


def picture_given(data: bytes, at: str, filename: str = "picture") -> GivenPicture:
    """A picture of the client's, whose format its first bytes tell. Raises InvalidRequest for what is none."""
    if data.startswith(_PNG):
        return GivenPicture(data, "image/png", filename)
    if data.startswith(b"\xff\xd8\xff"):
        return GivenPicture(data, "image/jpeg", filename)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return GivenPicture(data, "image/webp", filename)
    raise InvalidRequest(f"Invalid '{at}': a PNG, JPEG or WebP is expected.", param=at, code="invalid_image_format")


def _check_mask(picture: GivenPicture, mask: GivenPicture) -> None:
    if mask.media_type != "image/png":
        raise InvalidRequest("Invalid 'mask': a PNG is expected.", param="mask", code="invalid_image_format")
    if picture.media_type == "image/png" and picture.data[16:_SIZES_END] != mask.data[16:_SIZES_END]:
        raise InvalidRequest("Invalid 'mask': it has another size than the first picture.", param="mask")


def _request(
    incoming: Incoming, body: ImagesBody | ImageEditBody, given: tuple[GivenPicture, ...], mask: GivenPicture | None
) -> ImagesRequest:
    if not body.prompt.strip():
        raise InvalidRequest("Invalid 'prompt': it is empty.", param="prompt")
    if body.response_format == "url":
        raise UnsupportedParameter(
            "Pictures are given as base64 here: leave 'response_format' out, or say b64_json.", param="response_format"
        )
    if body.svg is not None:
        raise UnsupportedParameter("'svg' is not taken here.", param="svg")
    wishes = {
        name: value
        for name in body.__struct_fields__
        if name not in _OWN_FIELDS and (value := getattr(body, name)) is not None
    }
    check_image_terms(wishes, "")
    asked = Imaging(body.n or 1, body.partial_images or 0, wishes, given, mask)
    generation = GenerationRequest(
        id=incoming.request_id,
        model=body.model,
        messages=(Message("user", (Text(body.prompt),), content_is_text=True),),
        stream=bool(body.stream),
        user=body.safety_identifier or body.user,
        headers=incoming.headers,
        origin=_EDIT_ORIGIN if given else _ORIGIN,
        caller=incoming.caller,
        imaging=asked,
        size=len(incoming.body),
    )
    return ImagesRequest(generation, asked, bool(given))
