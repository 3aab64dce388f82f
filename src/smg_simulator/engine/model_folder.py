"""Reads the folder of the embedded engine's model: its vocabulary, and the archive of its tokenizer.

Above: server.grpc_server, when it starts and when a client asks for the tokenizer. Knows no dialect.
"""

import io
import zipfile
from functools import lru_cache
from pathlib import Path

from smg_simulator.engine.vocabulary import Vocabulary

__all__ = ["MODEL_FOLDER", "read_vocabulary", "tokenizer_archive"]

MODEL_FOLDER = Path(__file__).parent.parent / "model"
"""The shipped model: a tokenizer and a chat template, no weights."""

_BUNDLE = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of the model in `folder`."""

    def text(name: str) -> str:
        path = folder / name
        return path.read_text(encoding="utf-8") if path.exists() else "{}"

    return Vocabulary(
        (folder / "tokenizer.json").read_text(encoding="utf-8"), text("config.json"), text("generation_config.json")
    )


def tokenizer_archive(folder: Path) -> bytes:
    """The tokenizer's files as a zip archive, the same bytes each time."""
    files = [folder / name for name in _BUNDLE] + sorted(folder.glob("*.jinja"))
    return _packed(tuple((path.name, path.read_bytes()) for path in files if path.exists()))


@lru_cache(maxsize=2)
def _packed(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """An archive of files, each with its name and bytes. Those of the last two models are kept: each gateway asks anew."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            member = zipfile.ZipInfo(name, _LONG_AGO)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return out.getvalue()
