"""What gateways of many tests share, since it is the same for all and takes long to make: loaded tokenizers and authorities."""

import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import certifi
import msgspec
import pytest

from smg_core.tokenizer import loader
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

PATIENCE = 300.0
"""Seconds that a test waits for what will come. It ends a hang and measures nothing: other work may keep all cores busy
meanwhile."""
KEPT = 8
"""Loaded tokenizers that a test process keeps."""
_END = b"-----END CERTIFICATE-----\n"
_loaded: OrderedDict[tuple[Any, ...], HuggingFaceTokenizer] = OrderedDict()


@contextmanager
def loaded_once() -> Iterator[None]:
    """Tokenizers of the same files and settings are one object while this lasts.

    A tokenizer does not change; what changes, the cache around it, is each gateway's own. To load that of the embedded engine
    takes a sixth of a second, three quarters of what a gateway costs to start.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "HuggingFaceTokenizer", _shared)
        yield


def _shared(text: str, *, tokenizer_config: Any, source: Any, **settings: Any) -> HuggingFaceTokenizer:
    key = (text, msgspec.json.encode(tokenizer_config, order="sorted"), *sorted(settings.items()))
    found = _loaded.pop(key, None)
    if found is None:  # its folder may be gone when it reads the file again
        found = HuggingFaceTokenizer(text, tokenizer_config=tokenizer_config, source=lambda: text, **settings)
    _loaded[key] = found
    while len(_loaded) > KEPT:
        _loaded.popitem(last=False)
    return found


@contextmanager
def few_authorities() -> Iterator[None]:
    """One public authority is trusted by default while this lasts, here and in processes that tests start.

    No test speaks to a server that a public authority vouches for. To read all of them takes a twentieth of a second, for each
    client of HTTP that a test makes, also of plain HTTP.
    """
    whole = Path(certifi.where()).read_bytes()
    with tempfile.TemporaryDirectory(prefix="smg-tests-") as folder, pytest.MonkeyPatch.context() as patch:
        one = Path(folder) / "authority.pem"
        one.write_bytes(whole[: whole.index(_END) + len(_END)])
        patch.setattr(certifi, "where", lambda: str(one))
        patch.setitem(os.environ, "SSL_CERT_FILE", str(one))
        patch.setitem(os.environ, "SSL_CERT_DIR", folder)
        yield
