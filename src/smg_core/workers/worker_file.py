"""Reads the file of workers that each have settings of their own: role, model, credentials, certificates.

Decides what an entry means and what is wrong with one; pure: the caller reads the files. Above: fleet.connect, which reads
the file that `workers.file` names. Below: worker. The file is YAML or JSON, a list of entries:

    - url: grpcs://gpu-0:50051
      name: gpu-0
      role: prefill
      api_key_file: /run/secrets/gpu-0
      headers: {x-team: search}
      tls_ca: /etc/smg/gpu-0-ca.pem
      tls_cert: /etc/smg/client.pem
      tls_key: /etc/smg/client.key
      labels: {zone: east}

An entry of an outside provider has where its key comes from, and all models that are asked there: it is as many workers, one for
each model, so that each has its own limits and its own breaker:

    - url: https://api.mistral.ai/v1
      name: mistral
      dialect: openai-strict
      credential: {file: /run/secrets/mistral}
      models: {small: mistral-small-latest, large: mistral-large-latest}
      limits: {in_flight: 50, requests_per_minute: 600, tokens_per_minute: 500_000}
      price: {input: "0.1", output: "0.3"}

Messages name the entry and the field, never a value, since it may be a secret.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.engines.connections.vendor_urls import vendor_url
from smg_core.engines.grpc.h2.headers import check_metadata
from smg_core.errors import InternalError
from smg_core.settings import ConfigError, nearest
from smg_core.workers.candidate import LEAST_WEIGHT, MOST_RANK, MOST_WEIGHT
from smg_core.workers.worker import WorkerRole, WorkerSpec

__all__ = [
    "TLS_FIELDS",
    "WorkerEntry",
    "adapter_pairs",
    "changed_tls",
    "check_headers",
    "labels_of",
    "spec_of",
    "specs_of_entry",
    "workers_of",
]

TLS_FIELDS = frozenset({"tls_ca", "tls_cert", "tls_key", "tls_server_name"})
"""The fields of an entry that are the worker's own certificates."""


HIGHEST_PORT = 65535
MOST_ADAPTER_ID = (1 << 63) - 1
MOST_OF_A_LIMIT = 10**12
_UNKNOWN_FIELD = "Object contains unknown field `"


class EntryLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How much a worker takes, where that is not what the settings say: requests at once, tokens of prompts that nothing has
    answered yet, and what its account allows: requests and tokens a minute."""

    in_flight: int = 0
    waiting_tokens: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


class WorkerEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One entry as it is written. `api_key_file` names a file that holds the key alone. `models` are those of a provider: their
    names there, or by the name that clients use. `limits` are those of each worker, and `price` what its tokens cost, as of a row
    of `limits.prices`."""

    url: str = ""
    name: str = ""
    role: WorkerRole | None = None
    dialect: str = "auto"
    model: str | None = None
    weight: float = 1.0
    api_key: str | None = None
    api_key_file: str | None = None
    headers: dict[str, str] = {}
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_server_name: str | None = None
    bootstrap_host: str = ""
    bootstrap_port: int = 0
    rank: int | None = None
    adapters: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    kv_events: str = ""
    kv_events_replay: str = ""
    kv_events_topic: str = ""
    credential: CredentialSpec | None = None
    region: str = ""
    api_version: str = ""
    models: dict[str, str] | list[str] = []
    limits: EntryLimits = EntryLimits()
    price: dict[str, str | int | float] = {}


def workers_of(content: object, read: Callable[[str], str], header_bytes: int) -> list[WorkerSpec]:
    """The workers that the file's parsed `content` describes. `read` returns the text of a file that an entry names (raises
    OSError or ValueError); `header_bytes` bounds a worker's headers. Raises ConfigError with every problem."""
    if content is None:  # more often a file that lost its content than a wish for no workers
        raise ConfigError("workers.file: it says nothing; a list without workers is written []")
    if not isinstance(content, list):
        raise ConfigError("workers.file: expected a list of workers")
    found, problems = [], []
    for at, each in enumerate(content):
        try:
            found += specs_of_entry(_entry(each), read, header_bytes)
        except (ValueError, OSError) as error:  # msgspec's own errors are ValueErrors that name the field and no value
            problems.append(f"workers.file: worker {at + 1}: {error}")
    labels = [each.label for each in found]
    problems += [f"workers.file: {each} is there twice" for each in sorted({e for e in labels if labels.count(e) > 1})]
    if problems:
        raise ConfigError(*problems)
    return found


def _entry(written: object) -> WorkerEntry:
    """An entry as it is written. Raises ValueError, which suggests a field in place of one that is unknown."""
    try:
        return msgspec.convert(written, WorkerEntry)
    except msgspec.ValidationError as error:
        reason = str(error)
        name, _, place = reason.removeprefix(_UNKNOWN_FIELD).partition("`")
        if not reason.startswith(_UNKNOWN_FIELD):
            raise ValueError(reason) from None
        if place.endswith("`$.limits`"):  # whose fields have other names elsewhere
            raise ValueError(f"{reason}; they are {', '.join(EntryLimits.__struct_fields__)}") from None
        raise ValueError(reason + nearest(name, WorkerEntry.__struct_fields__)) from None


def spec_of(entry: WorkerEntry, read: Callable[[str], str], header_bytes: int) -> WorkerSpec:
    """The worker that an entry describes; arguments as of `workers_of`. Raises ValueError and OSError for what is wrong."""
    if entry.api_key is not None and entry.api_key_file is not None:
        raise ValueError("api_key and api_key_file are two ways to say one thing")
    key = entry.api_key if entry.api_key_file is None else read(entry.api_key_file).strip()
    headers = tuple((name.lower(), value) for name, value in entry.headers.items())
    if key is not None:
        if any(name == "authorization" for name, _ in headers):
            raise ValueError("the API key is sent as the header authorization, which is among the headers too")
        headers = (("authorization", f"Bearer {key}"), *headers)
    check_headers(headers, header_bytes)
    if entry.credential is not None:
        entry.credential.check()
        if key is not None:
            raise ValueError("the API key and the credential are two ways to say one thing")
    if not 0 <= entry.bootstrap_port <= HIGHEST_PORT:
        raise ValueError(f"bootstrap_port must be 0 to {HIGHEST_PORT}")
    if entry.rank is not None and not 0 <= entry.rank <= MOST_RANK:
        raise ValueError(f"rank must be 0 to {MOST_RANK}")
    if not LEAST_WEIGHT <= entry.weight <= MOST_WEIGHT:
        raise ValueError(f"weight must be {LEAST_WEIGHT:f} to {MOST_WEIGHT:,.0f}")
    limits = msgspec.structs.astuple(entry.limits)
    if min(limits) < 0 or max(limits) > MOST_OF_A_LIMIT:
        raise ValueError(f"limits are 1 to {MOST_OF_A_LIMIT:,}, or 0 for those of the settings")
    return WorkerSpec(
        entry.url or vendor_url(entry.dialect, entry.region),
        name=entry.name,
        dialect=entry.dialect,
        model=entry.model,
        weight=entry.weight,
        role=entry.role,
        headers=headers,
        tls=changed_tls(None, {name: getattr(entry, name) for name in TLS_FIELDS}),
        bootstrap_host=entry.bootstrap_host,
        bootstrap_port=entry.bootstrap_port,
        rank=entry.rank,
        adapters=adapter_pairs(entry.adapters),
        labels=labels_of(entry.labels),
        kv_events=entry.kv_events,
        kv_events_replay=entry.kv_events_replay,
        kv_events_topic=entry.kv_events_topic,
        credential=entry.credential,
        region=entry.region,
        api_version=entry.api_version,
        most_in_flight=entry.limits.in_flight,
        most_waiting_tokens=entry.limits.waiting_tokens,
        price=_price_of(entry.price),
        requests_a_minute=entry.limits.requests_per_minute,
        tokens_a_minute=entry.limits.tokens_per_minute,
    )


def specs_of_entry(entry: WorkerEntry, read: Callable[[str], str], header_bytes: int) -> list[WorkerSpec]:
    """The workers that an entry describes: one, or one for each model of a provider. As `spec_of` otherwise."""
    if not entry.models:
        return [spec_of(entry, read, header_bytes)]
    if entry.model is not None:
        raise ValueError("model and models are two ways to say one thing")
    named = entry.models if isinstance(entry.models, dict) else {name: name for name in entry.models}
    if not all(name and vendor for name, vendor in named.items()) or len(named) < len(entry.models):
        raise ValueError("models have names that are not empty and differ")
    spec = spec_of(entry, read, header_bytes)
    called = entry.name or spec.url
    return [
        attrs.evolve(spec, name=f"{called}/{name}", model=name, vendor_model=vendor) for name, vendor in named.items()
    ]


def _price_of(price: Mapping[str, str | int | float]) -> tuple[tuple[str, str], ...]:
    """A price as a spec has it. Raises ValueError for one that is none."""
    if not price:
        return ()
    from smg_core.limits.prices import own_price  # which workers without a price do not need

    found = tuple(sorted((kind, str(value)) for kind, value in price.items()))
    own_price(found)
    return found


def labels_of(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels as a spec has them. Raises ValueError for a name that is empty."""
    if not all(labels):
        raise ValueError("labels have names that are not empty")
    return tuple(sorted(labels.items()))


def adapter_pairs(adapters: Mapping[str, str | int]) -> tuple[tuple[str, str], ...]:
    """Adapters as a spec has them. Raises ValueError for a name or an id that is empty, and for a number that is
    too large."""
    if any(isinstance(id, int) and abs(id) > MOST_ADAPTER_ID for id in adapters.values()):
        raise ValueError(f"an adapter's id that is a number is at most {MOST_ADAPTER_ID}")
    if not all(name and str(id) for name, id in adapters.items()):
        raise ValueError("adapters have names and ids that are not empty")
    return tuple((name, str(id)) for name, id in adapters.items())


def changed_tls(tls: Tls | None, given: Mapping[str, str | None]) -> Tls | None:
    """`tls` with the fields of an entry that are `given`, by their names ("tls_ca"); None of them removes what was there."""
    changes: dict[str, Any] = {
        name.removeprefix("tls_"): value if name == "tls_server_name" else _path(value) for name, value in given.items()
    }
    changed = attrs.evolve(tls or Tls(), **changes)
    return changed if changed != Tls() else None


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


def check_headers(headers: tuple[tuple[str, str], ...], most: int) -> None:
    """Raise ValueError for a header that no call can carry, and for more than `most` bytes of them, as gRPC counts them. The
    message names the header, not its value."""
    try:
        check_metadata(headers, most)
    except InternalError as error:
        raise ValueError(error.detail) from None
