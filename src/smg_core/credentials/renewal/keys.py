"""Keys from the environment, from files and from commands (edge).

A file is looked at again and a command is run again after a while, so that a key is replaced while the gateway runs. Above:
opening. Below: programs.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from smg_core.clock import Clock, SystemClock
from smg_core.credentials.renewal.granted import Granted, sendable_key
from smg_core.credentials.renewal.programs import output_of
from smg_core.credentials.renewal.renewed import Renewed
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.regular_files import read_regular

__all__ = ["COMMAND_S", "FILE_S", "command_key", "environment_key", "file_key", "given_key", "key_source"]

FILE_S = 5.0
"""Seconds between two looks at a file with a key."""
COMMAND_S = 300.0
"""Seconds after which a command is asked for its key again."""
_MOST = 64 * 1024
"""Most bytes of a file with a key."""


def key_source(spec: CredentialSpec, *, clock: Clock | None = None) -> Renewed[str]:
    """The key that `spec` names, which has been checked."""
    if spec.file:
        return file_key(Path(spec.file).expanduser(), spec.every_s or FILE_S, clock=clock)
    if spec.command:
        return command_key(spec.command, spec.every_s or COMMAND_S, spec.timeout_s, clock=clock)
    return environment_key(spec.env, clock=clock) if spec.env else given_key(spec.key, clock=clock)


def given_key(key: str, *, clock: Clock | None = None) -> Renewed[str]:
    """A key that is written where the worker is."""

    async def fetch() -> Granted[str]:
        return Granted(sendable_key(key))

    return Renewed("given in the settings", fetch, clock=clock)


def environment_key(name: str, *, clock: Clock | None = None) -> Renewed[str]:
    """The key in the variable `name`, looked up again when the provider refuses it."""

    async def fetch() -> Granted[str]:
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"the environment has no {name}")
        return Granted(sendable_key(value))

    return Renewed(f"from {name}", fetch, clock=clock)


def file_key(path: Path, every_s: float, *, clock: Clock | None = None) -> Renewed[str]:
    """The key in a file, which is looked at every `every_s` seconds. One that cannot be read leaves the key that was there."""
    times = clock or SystemClock()

    async def fetch() -> Granted[str]:
        key = sendable_key((await asyncio.to_thread(read_regular, path, _MOST)).decode("ascii", "replace"))
        return Granted(key, renew_at=times.time() + every_s)

    return Renewed(f"from the file {path}", fetch, clock=times)


def command_key(
    command: Sequence[str], every_s: float, timeout_s: float, *, clock: Clock | None = None
) -> Renewed[str]:
    """The key that a command writes, which is run every `every_s` seconds. One that fails leaves the key that was there."""
    times = clock or SystemClock()

    async def fetch() -> Granted[str]:
        key = sendable_key((await output_of(command, timeout_s)).decode("ascii", "replace"))
        return Granted(key, renew_at=times.time() + every_s)

    return Renewed(f"of the command {Path(command[0]).name}", fetch, clock=times)
