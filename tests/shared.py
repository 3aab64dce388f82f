"""What gateways of many tests share, since it is the same for all and takes long to make: loaded tokenizers and authorities."""

import os
import socket
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import certifi
import msgspec
import pytest
from tests.bounded import set_defaults

from smg_core.config.config import Config
from smg_core.tokenizer import loader
from smg_core.tokenizer.huggingface import HuggingFaceTokenizer

PATIENCE = 300.0
"""Seconds that a test waits for what will come. It ends a hang and measures nothing: other work may keep all cores busy
meanwhile."""
KEPT = 8
"""Loaded tokenizers that a test process keeps."""
PATIENT = (
    *(
        "server.header_timeout_s",
        "server.body_timeout_s",
        "server.first_wait_s",
        "channel.publish_s",
        "tls.handshake_s",
    ),
    *("oidc.connect_s", "oidc.fetch_s", "discovery.dns_timeout_s", "discovery.kubernetes_timeout_s"),
    *("workers.probe_timeout_s", "engines.ping_timeout_s", "engines.question_timeout_s", "engines.tokenizer_timeout_s"),
    *(
        "timeouts.connect_s",
        "tokenizer.proof_timeout_s",
    ),
    *("media.timeout_s", "media.decode_timeout_s", "media.clip_timeout_s", "media.wait_s", "documents.timeout_s"),
    *("documents.wait_s", "history.timeout_s"),
)
"""Settings, and arguments that are none, after whose seconds somebody else is given up, as a busy machine would have it. In tests
of whole gateways they are `PATIENCE`, unless a test says otherwise: it is about one of them then."""
_END = b"-----END CERTIFICATE-----\n"
_loaded: OrderedDict[tuple[Any, ...], HuggingFaceTokenizer] = OrderedDict()


def free_port() -> int:
    """A port of this machine that nothing has now. The system draws it, so that test processes which ask at the same time are
    given different ones; servers that look for a free one by themselves all begin with the same."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


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


def _room(name: str) -> Any:
    """The class of the settings of a room."""
    return next(each.type for each in attrs.fields(Config) if each.name == name)


def patience_of(setting: str) -> float:
    """`PATIENCE`, or the most that a setting can be."""
    room, _, name = setting.partition(".")
    most = attrs.fields_dict(_room(room))[name].metadata["at_most"]
    return PATIENCE if most is None else min(PATIENCE, float(most))


PATIENT_ENVIRONMENT = {f"SMG_{each.replace('.', '_').upper()}": f"{patience_of(each):g}" for each in PATIENT}
"""Those of `PATIENT` for gateways in processes of their own, which `tests.bounded` starts."""


def set_patience(patient: bool) -> None:
    """From now on the settings of `PATIENT` are `PATIENCE` by default, or what the product has, in configurations that code
    makes."""
    own = {each: attrs.fields_dict(_room(each.partition(".")[0]))[each.partition(".")[2]].default for each in PATIENT}
    set_defaults({each: patience_of(each) if patient else own[each] for each in PATIENT})


@contextmanager
def patient_clients() -> Iterator[None]:
    """Clients of HTTP, those of the APIs too, wait `PATIENCE` for whatever they wait while this lasts, unless they are told
    otherwise."""
    import anthropic  # much to import, and for the tests of a gateway alone
    import httpx
    import httpx2
    import openai

    waits = [httpx._config.DEFAULT_TIMEOUT_CONFIG, httpx2._config.DEFAULT_TIMEOUT_CONFIG]
    waits += [openai.DEFAULT_TIMEOUT, anthropic.DEFAULT_TIMEOUT]
    with pytest.MonkeyPatch.context() as patch:
        for each in waits:
            for name in ("connect", "read", "write", "pool"):
                patch.setattr(each, name, PATIENCE)
        yield
