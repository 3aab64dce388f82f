"""The file that lists plugins, and by what a change of a file is noticed (edge).

Above: `plugins`. Below: `smg_core.config.config` reads the text, `middleware.entries` what it says.
"""

from pathlib import Path
from typing import Any

from smg_core.config.config import parse_file
from smg_core.middleware.entries import Entry, parse_entries
from smg_core.regular_files import read_regular
from smg_core.settings import ConfigError

__all__ = ["FilePrint", "entries_in_file", "print_of"]

FilePrint = tuple[int, int, int] | None
"""When a file was written, its size and its number; None for what is no file."""


def entries_in_file(name: str, most: int) -> tuple[Entry, ...]:
    """The plugins that a file of at most so many bytes lists. Raises ConfigError."""
    source = f"middleware.file: {name}"
    try:
        text = read_regular(Path(name).expanduser(), most).decode()
        found = parse_file(text, Path(name).suffix)
    except (OSError, UnicodeDecodeError, RuntimeError) as error:
        raise ConfigError(f"{source} cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    folder = str(Path(name).expanduser().parent)
    return parse_entries([_located(each, folder) for each in found] if isinstance(found, list) else found, source)


def _located(found: Any, folder: str) -> Any:
    """An entry whose component is looked for beside the file that lists it."""
    source = found.get("source") if isinstance(found, dict) else None
    if isinstance(source, str) and source.endswith(".wasm") and not source.startswith(("/", "~")):
        return {**found, "source": f"{folder}/{source}"}
    return found


def print_of(source: str | None) -> FilePrint:
    """By what a change of a file is noticed; None for what is no file."""
    if source is None:
        return None
    try:
        found = Path(source).expanduser().stat()
    except (OSError, ValueError, RuntimeError):  # no file, no name of a file, no such user's home
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
