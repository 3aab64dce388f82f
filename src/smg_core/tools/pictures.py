"""The built-in tool that makes pictures: by a served model, or by a server of the configuration that stands for it (edge).

Decides what a picture is to the encoders and what the model is told of it; it stays base64, which nobody reads. The permission
is that of the tool that does it (`tool:SERVER.image_generation`). Above: `built_ins`. Below: the role of who asks a model.
"""

import asyncio
import base64
import binascii
from typing import Protocol

import msgspec

from smg_core.built_in import BuiltIn
from smg_core.imaging import GivenPicture, Imaging, MadePicture
from smg_core.json_types import Json, JsonObject
from smg_core.pipeline.tools.hosted import OnToolProgress, ToolAnswer
from smg_core.request import Caller, Text
from smg_mcp.records.base import ToolImage, ToolOutcome

__all__ = ["PictureMaker", "made_by_model", "picture_of_server"]

_FACTS = ("size", "quality", "background", "output_format")
_FORMATS = {"image/jpeg": "jpeg", "image/webp": "webp", "image/gif": "gif"}


class PictureMaker(Protocol):
    """Asks a served model for a picture, as a request of its own."""

    async def __call__(
        self, caller: Caller, wanted: tuple[str, str], prompt: str, asked: Imaging, progress: OnToolProgress
    ) -> MadePicture:
        """`wanted` are the model that the request names ("" for none) and the operator's. Earlier states of the picture are told
        to `progress`. Raises SmgError."""
        ...


async def made_by_model(
    maker: PictureMaker, model: str, asked: BuiltIn, arguments: JsonObject, caller: Caller, progress: OnToolProgress
) -> ToolAnswer:
    """A picture of what the model says, by the served model of this name. Raises SmgError."""
    prompt = str(arguments.get("prompt"))
    changes = asked.action == "edit" or (asked.action == "auto" and arguments.get("edit") is True)
    given: tuple[GivenPicture, ...] = ()
    mask: GivenPicture | None = None
    if changes:
        try:
            given, mask = await asyncio.to_thread(_read, asked)
        except (binascii.Error, ValueError):
            return _failed("A picture of the conversation cannot be read.")
        if not given:
            return _failed("There is no picture in the conversation that could be changed; make a new one.")
    imaging = Imaging(1, asked.partial, asked.picture or {}, given, mask)
    made = await maker(caller, (asked.model, model), prompt, imaging, progress)
    facts = {name: (asked.picture or {}).get(name) for name in _FACTS} | made.about
    facts |= {"revised_prompt": made.about.get("revised_prompt") or prompt, "action": "edit" if changes else "generate"}
    return _answer(made.data, facts)


def _read(asked: BuiltIn) -> tuple[tuple[GivenPicture, ...], GivenPicture | None]:
    """The pictures of the conversation, and the mask. Raises ValueError."""
    given = tuple([_decoded(each) for each in asked.pictures])
    return given, _decoded(asked.mask) if asked.mask else None


def _decoded(text: str) -> GivenPicture:
    data = base64.b64decode(text, validate=True)
    kinds = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"RIFF", "image/webp"))
    kind = next((kind for begins, kind in kinds if data.startswith(begins)), "application/octet-stream")
    return GivenPicture(data, kind, f"picture.{kind.rpartition('/')[2]}")


def picture_of_server(outcome: ToolOutcome, prompt: str) -> ToolAnswer:
    """The first picture that a server of tools has given."""
    if outcome.is_error:
        return _failed(outcome.text)
    made = next((part for part in outcome.content if isinstance(part, ToolImage)), None)
    if (
        made is None
        or not made.data.isascii()
        or not made.data.replace("=", "").replace("+", "").replace("/", "").isalnum()
    ):
        return _failed("The tool gave no picture.")
    facts: JsonObject = {
        "output_format": _FORMATS.get(made.mime, "png"),
        "revised_prompt": prompt,
        "action": "generate",
    }
    return _answer(made.data.encode(), facts)


def _answer(data: bytes, facts: JsonObject) -> ToolAnswer:
    about: JsonObject = {name: value for name, value in facts.items() if value is not None}
    result: Json = msgspec.Raw(b'"%b"' % data)  # JSON as it is, which is not read again
    note = Text("The picture was made, and is shown to the user.")
    return ToolAnswer((note,), structured={**about, "result": result})


def _failed(why: str) -> ToolAnswer:
    return ToolAnswer((Text(why),), is_error=True, code="failed")
