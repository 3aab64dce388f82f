"""The descriptions (SDP, RFC 8866) that a call by WebRTC is begun with: what of an offer is taken, and what is answered.

Nothing is sent to the addresses that an offer names: whoever calls shows where they are by asking the ports of the answer, so
that nobody has the gateway send anything to others. Pure. Above: the handler of calls. Below: forms and JSON, the errors.
"""

from collections.abc import Callable

from smg_core.errors import InvalidRequest, UnsupportedMedia
from smg_core.json_types import JsonObject
from smg_core.wire.decoding import plain_body
from smg_core.wire.multipart import FormReader
from smg_core.wire.settings import LimitsConfig

__all__ = ["checked_offer", "reachable_at", "read_call"]

_FIELDS = 8
_FIELD_BYTES = 512 * 1024  # settings of a session have texts in them
_LONGEST = 16 * 1024  # characters; those of browsers for sound have some 6,000
_SECTIONS = 8
_NOT_TAKEN = ("a=candidate:", "a=end-of-candidates", "a=remote-candidates:")


def read_call(content_type: str, body: bytes, limits: LimitsConfig) -> tuple[str, JsonObject | None]:
    """The offer of a call and the settings that its session begins with, of a form, or of a body that is the offer alone. Raises
    InvalidRequest and UnsupportedMedia."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/sdp":
        return checked_offer(body.decode("utf-8", "replace")), None
    if kind != "multipart/form-data":
        raise UnsupportedMedia("A call is made by application/sdp, or by multipart/form-data with 'sdp' and 'session'.")
    form = FormReader(content_type, lambda data: None, most=_FIELDS, most_bytes=_FIELD_BYTES, file="")
    form.feed(body)
    form.end()
    unknown = sorted(set(form.fields) - {"sdp", "session"})
    if unknown:
        name = unknown[0][:80]
        raise InvalidRequest(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    if "sdp" not in form.fields:
        raise InvalidRequest("Missing required parameter: 'sdp'.", param="sdp", code="missing_required_parameter")
    session = plain_body(form.fields["session"].encode(), limits) if "session" in form.fields else None
    if session is not None and not isinstance(session, dict):
        raise InvalidRequest("Invalid type for 'session': expected an object.", param="session", code="invalid_type")
    return checked_offer(form.fields["sdp"]), session


def checked_offer(text: str) -> str:
    """The offer without the addresses that it names. Raises InvalidRequest for one that is no offer of a call."""
    if len(text) > _LONGEST:
        raise _wrong(f"it is longer than {_LONGEST} characters.")
    lines = [line.rstrip("\r") for line in text.strip().split("\n")]
    if lines[0] != "v=0":
        raise _wrong("it does not begin with v=0.")
    if not all(len(line) > 1 and line[0].isalpha() and line[1] == "=" for line in lines if line):
        raise _wrong("a line is not of the form a=....")
    sections = [line[2:].split(" ")[0] for line in lines if line.startswith("m=")]
    if len(sections) > _SECTIONS or sections.count("application") != 1:
        raise _wrong("it has one data channel (m=application), over which events come and go.")
    if sections.count("audio") > 1 or set(sections) - {"audio", "application"}:
        raise _wrong("it has at most one medium, which is sound (m=audio).")
    bundled = [line.split()[1:] for line in lines if line.startswith("a=group:BUNDLE")]
    names = [line[6:].strip() for line in lines if line.startswith("a=mid:")]
    if len(names) != len(sections) or len(set(names)) != len(names) or any(set(each) != set(names) for each in bundled):
        raise _wrong("each part has an a=mid, and a=group:BUNDLE, where it is there, names them all.")
    return "\r\n".join(line for line in lines if line and not line.startswith(_NOT_TAKEN)) + "\r\n"


def reachable_at(answer: str, address: Callable[[str], str]) -> str:
    """The answer with the addresses by which its ports are reached: `address` gives that of each of this machine's."""
    lines: list[str] = []
    for line in answer.split("\r\n"):
        if line.startswith("a=candidate:"):
            fields = line.split(" ")
            fields[4] = address(fields[4])
            line = " ".join(fields)
        elif line.startswith(("c=IN IP4 ", "c=IN IP6 ")):
            reached = address(line[9:])
            line = f"c=IN {'IP6' if ':' in reached else 'IP4'} {reached}"
        lines.append(line)
    return "\r\n".join(lines)


def _wrong(why: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid 'sdp': {why}", param="sdp", code="invalid_offer")
