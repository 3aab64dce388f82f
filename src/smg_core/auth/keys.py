"""API keys that stand in settings and files: how they are written, and whose they are.

A key stands as it is or as `sha256:` and its hash in hexadecimal; only hashes are kept in memory. They are looked up by the hash,
so that nothing can be learnt from how long a comparison takes: who changes one character of a guess changes all of its hash.
Pure: texts and times are arguments. Above: `identity.identity` reads the files. Below: `roles`.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import attrs

from smg_config_files.text import TextRefused, read_json, read_yaml
from smg_core.auth.credentials import Credential
from smg_core.auth.names import LONGEST_NAME, is_caller_name
from smg_core.auth.roles import USER, Roles
from smg_core.errors import AuthenticationFailed
from smg_core.extras import needs
from smg_core.request import Caller
from smg_core.settings import ConfigError, nearest

__all__ = ["ApiKey", "StaticKeys", "keys_in_file", "keys_in_lines", "seconds_of"]

LEAST_CHARACTERS = 16
"""Of a key: one that is shorter can be guessed."""
_HASH = "sha256:"
_WORDS = ("name", "tenant", "principal", "role", "model", "tool", "expires")
_SEVERAL = frozenset({"role", "model", "tool"})


@attrs.frozen(kw_only=True)
class ApiKey:
    """A key by its hash. `tenant` and `principal` are whose requests it carries; `roles`, `models` and `tools` bound them;
    `expires_at` is in seconds since the Unix epoch."""

    digest: bytes = attrs.field(repr=False)
    name: str = ""
    tenant: str = ""
    principal: str = ""
    roles: tuple[str, ...] = (USER,)
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    expires_at: float | None = None


class StaticKeys:
    """The keys of settings and files. They do not change while the gateway runs."""

    def __init__(self, keys: Iterable[ApiKey], roles: Roles, now: Callable[[], float]) -> None:
        """`now` is the time in seconds since the Unix epoch. Raises ConfigError for two that are the same, for an unknown role,
        and for several keys of which one names no tenant."""
        self._now = now
        self._callers: dict[bytes, tuple[Caller, float | None]] = {}
        given = list(keys)
        for number, key in enumerate(given, 1):
            if key.digest in self._callers:
                raise ConfigError(f"auth: key {number} is given twice")
            if not key.tenant and len(given) > 1:
                raise ConfigError(
                    f"auth: key {number} names no tenant (tenant=NAME); of several keys each says whose data it shares"
                )
            try:
                grants = roles.grants(key.roles, key.models, key.tools)
            except ConfigError as error:
                raise ConfigError(f"auth: key {number}: {error}") from None
            caller = Caller(key.tenant, key.principal or key.name, grants)
            self._callers[key.digest] = caller, key.expires_at

    def known(self, credential: Credential) -> Caller | None:
        """The caller whose key this is. Raises AuthenticationFailed for a key that has expired."""
        found = self._callers.get(credential.digest)
        if found is None:
            return None
        caller, expires_at = found
        if expires_at is not None and self._now() >= expires_at:
            raise AuthenticationFailed("The API key has expired.")
        return caller

    def was_good(self, credential: Credential) -> bool:
        """False: `known` says all there is to know."""
        return False


# ------------------------------------------------------------------------------------------------------------- how it is written


def keys_in_lines(lines: Iterable[str], source: str) -> list[ApiKey]:
    """The keys of lines such as "KEY tenant=acme role=user"; empty ones, and those that begin with "#", are left out. `source`
    begins each message, which repeats no key. Raises ConfigError."""
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        fields: dict[str, list[str]] = {}
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if not equals or not value:
                raise ConfigError(f"{source}: line {number}: expected KEY and words such as tenant=NAME")
            fields.setdefault(name, []).append(value)
        found.append(_key(words[0], fields, f"{source}: line {number}"))
    return found


def keys_in_file(text: str, name: str) -> list[ApiKey]:
    """The keys in the text of a file: a list of objects where its suffix is .json, .yaml or .yml, else lines. Raises
    ConfigError."""
    source = f"auth.keys_file: {name}"
    suffix = PurePath(name).suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        found = keys_in_lines(text.splitlines(), source)
    else:
        parsed = _parsed(text, suffix, source)
        if not isinstance(parsed, list):
            raise ConfigError(f"{source}: expected a list of keys")
        found = [_of_object(entry, f"{source}: key {number}") for number, entry in enumerate(parsed, 1)]
    if not found:
        raise ConfigError(f"{source} has no key")
    return found


def _parsed(text: str, suffix: str, source: str) -> object:
    """Raises ConfigError, which does not repeat the text."""
    try:
        return read_json(text) if suffix == ".json" else read_yaml(text)
    except ImportError:
        raise ConfigError(f"{source}: {needs('YAML', 'yaml')}, or write JSON") from None
    except TextRefused as error:
        raise ConfigError(f"{source}: {error.reason}") from None


def _of_object(entry: object, source: str) -> ApiKey:
    if not isinstance(entry, dict) or not isinstance(key := entry.get("key"), str):
        raise ConfigError(f"{source}: expected an object with a key")
    fields: dict[str, list[str]] = {}
    for name, value in entry.items():
        if name == "key":
            continue
        values = value if isinstance(value, list) else [value]
        fields[str(name)] = [_word(each, f"{source}: {name}") for each in values]
    return _key(key, fields, source)


def _word(value: object, source: str) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value):
        text = value.isoformat() if hasattr(value, "isoformat") else None
        if not isinstance(text, str):
            raise ConfigError(f"{source}: expected a string")
        return text
    return str(value)


def _key(text: str, fields: Mapping[str, Sequence[str]], source: str) -> ApiKey:
    for name, values in fields.items():
        if name not in _WORDS:
            raise ConfigError(f"{source}: there is no {name}{nearest(name, _WORDS)}")
        if len(values) > 1 and name not in _SEVERAL:
            raise ConfigError(f"{source}: {name} is given twice")
    made: dict[str, Any] = {
        name: values[0] for name, values in fields.items() if name in ("name", "tenant", "principal")
    }
    for name, value in made.items():
        if not is_caller_name(value):
            raise ConfigError(f"{source}: {name}: a name has 1 to {LONGEST_NAME} printable characters")
    if "role" in fields:
        made["roles"] = tuple(fields["role"])
    if "model" in fields:
        made["models"] = tuple(fields["model"])
    if "tool" in fields:
        made["tools"] = tuple(fields["tool"])
    if "expires" in fields:
        made["expires_at"] = seconds_of(fields["expires"][0], source)
    return ApiKey(digest=_digest(text, source), **made)


def _digest(text: str, source: str) -> bytes:
    if text.startswith(_HASH):
        try:
            digest = bytes.fromhex(text.removeprefix(_HASH))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise ConfigError(f"{source}: {_HASH} is followed by 64 hexadecimal digits")
        return digest
    if len(text) < LEAST_CHARACTERS or not (text.isascii() and text.isprintable()) or " " in text:
        raise ConfigError(
            f"{source}: a key has {LEAST_CHARACTERS} characters at least, all printable ASCII (openssl rand -hex 32)"
        )
    return hashlib.sha256(text.encode()).digest()


def seconds_of(text: str, source: str) -> float:
    """A date or a time of ISO 8601 in seconds since the Unix epoch; UTC where it names no zone. Raises ConfigError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{source}: expires: {text} is no date such as 2027-01-31") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
