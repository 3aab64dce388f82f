"""The format of the answer to an Interactions request.

Pure. Above: interactions. Below: the wire types, request.
"""

import msgspec

from smg_core.apis.google.proto_json import proto_value, refuse_no_string
from smg_core.apis.interactions.types import InteractionBody, TextFormatEntry
from smg_core.errors import InvalidRequest, UnsupportedParameter
from smg_core.json_types import JsonObject
from smg_core.request import JsonFormat, ResponseFormat, SchemaFormat, TextFormat
from smg_core.wire.decoding import check_depth
from smg_core.wire.settings import LimitsConfig

__all__ = ["read_interaction_format"]

_FORMATS = ("text", "image", "audio", "video")
_JSON_TYPE = "application/json"


def read_interaction_format(wire: InteractionBody, limits: LimitsConfig, size: int) -> ResponseFormat:
    """The format that the answer is held to; `size` is the body's, in bytes. An object without a type of output is a JSON schema,
    as the earlier revision has it."""
    asked, at = wire.response_format, "response_format"
    entries = asked if isinstance(asked, list) else [] if asked is None else [asked]
    if len(entries) > 1:
        raise InvalidRequest(f"Invalid value at '{at}': one format is taken, since answers are text.", param=at)
    kind, schema = wire.response_mime_type, None
    if entries:
        entry, place = entries[0], f"{at}[0]" if isinstance(asked, list) else at
        if entry.get("type") not in _FORMATS:
            if "type" in entry and not isinstance(entry["type"], list):  # of a schema, which may name several
                refuse_no_string(entry, place)
            kind, schema = kind or _JSON_TYPE, entry
        elif entry.get("type") != "text":
            raise UnsupportedParameter(
                f"Invalid value at '{place}.type': answers are text on this server.", param=f"{place}.type"
            )
        else:
            read = proto_value(entry, TextFormatEntry, place)
            kind, schema = read.mime_type or kind or ("" if read.schema is None else _JSON_TYPE), read.schema
    return _format(kind or "", schema, limits, size)


def _format(kind: str, schema: JsonObject | None, limits: LimitsConfig, size: int) -> ResponseFormat:
    if kind not in ("", "text/plain", _JSON_TYPE):
        raise InvalidRequest(
            f"Invalid value at 'response_mime_type': allowed mimetypes are `text/plain` and `{_JSON_TYPE}`.",
            param="response_mime_type",
        )
    if schema is None:
        return JsonFormat() if kind == _JSON_TYPE else TextFormat()
    if kind == "text/plain":
        raise InvalidRequest(
            f"Invalid value at 'response_format': a schema needs the mimetype `{_JSON_TYPE}`.", param="response_format"
        )
    check_depth([schema], limits.json_depth, "response_format")
    if size > limits.schema_bytes:
        _check_size(schema, limits)
    return SchemaFormat(schema)


def _check_size(schema: JsonObject, limits: LimitsConfig) -> None:
    found = len(msgspec.json.encode(schema))
    if found > limits.schema_bytes:
        raise InvalidRequest(
            f"Invalid value at 'response_format': {found} bytes, and at most {limits.schema_bytes} are taken.",
            param="response_format",
        )
