"""The files of one container: listed, read, put there, removed, whatever the code has made of their folder (edge).

No link is followed, at no place of a path, and nothing but regular files is seen; code may be running meanwhile. All of it
blocks. Above: the containers of tenants. Below: the standard library.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from smg_core.containers.records import FoundFile

__all__ = [
    "HasBytes",
    "container_file_id",
    "files_in",
    "opened_file",
    "put_file",
    "remove_file",
    "removed_tree",
    "restore_files",
    "safe_name",
]

_DEPTH = 16  # folders within folders, as `program` bounds them
_LISTED = 4000  # entries that are looked at
_LONGEST = 255
_PASSES = 64  # times that a folder is looked through, of which each removes as many files as are looked at


class HasBytes(Protocol):
    """What a file is made of."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""
        ...


def container_file_id(container: str, path: str) -> str:
    """The id of a file of a container, which it has as long as it has its path."""
    return "cfile_" + hashlib.sha256(f"{container}/{path}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def files_in(folder: Path) -> Mapping[str, FoundFile]:
    """The files in a folder and in those within it, by their paths. What has a name that is no text is left out."""
    found: dict[str, FoundFile] = {}
    pending, count = [("", 0)], 0
    while pending:
        within, depth = pending.pop()
        with contextlib.suppress(OSError), _opened(folder, within) as opened, os.scandir(opened) as entries:
            for entry in entries:
                count += 1
                path = f"{within}/{entry.name}" if within else entry.name
                if count > _LISTED:
                    return found
                if not path.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < _DEPTH:
                        pending.append((path, depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    found[path] = FoundFile(path, about.st_size, about.st_mtime)
    return found


@contextlib.contextmanager
def _opened(folder: Path, within: str) -> Iterator[int]:
    """A descriptor of a folder below `folder`; no part of the way is a link. Raises OSError."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in within.split("/") if within else ():
            following = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = following
        yield at
    finally:
        os.close(at)


def opened_file(folder: Path, path: str) -> BinaryIO:
    """A file to read. Raises OSError where there is none, or something else."""
    within, _, name = path.rpartition("/")
    with _opened(folder, within) as at:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(path)
    return os.fdopen(file, "rb")


def safe_name(name: str) -> str:
    """The name that a file gets which a client calls `name`."""
    kept = "".join(each if each.isprintable() else "_" for each in name.replace("\\", "/").rpartition("/")[2])
    while len(kept.encode()) > _LONGEST:
        kept = kept[1:]
    return kept if kept not in ("", ".", "..") else "file"


def put_file(folder: Path, name: str, source: HasBytes) -> FoundFile:
    """Put a file into a folder, in the place of one of its name. Raises OSError."""
    with _opened(folder, "") as at:
        new = f".{name[:100]}.{os.urandom(8).hex()}"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
        try:
            with os.fdopen(handle, "wb") as file:
                while piece := source.read(1 << 20):
                    file.write(piece)
                file.flush()
                about = os.fstat(file.fileno())
            os.rename(new, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            os.unlink(new, dir_fd=at)
            raise
    return FoundFile(name, about.st_size, about.st_mtime)


def remove_file(folder: Path, path: str) -> None:
    """Remove a file. Raises OSError."""
    within, _, name = path.rpartition("/")
    with _opened(folder, within) as at:
        os.unlink(name, dir_fd=at)


def removed_tree(folder: Path, keep: frozenset[str] = frozenset()) -> None:
    """Remove a folder with all that is in it, however deep; with `keep`, only the entries in it that are not named there. Nothing
    may run in it."""
    pending = [(folder, keep)]
    number = 0
    while pending:
        place, kept = pending.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name in kept:
                    continue
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        number += 1  # what lies deep is moved up first: a path has no more parts than these two
                        target = folder / f".removed-{number}-{os.urandom(4).hex()}"
                        Path(entry.path).rename(target)
                        pending.append((target, frozenset()))
                    else:
                        Path(entry.path).unlink()
        if place != folder:
            with contextlib.suppress(OSError):
                place.rmdir()
    if not keep:
        with contextlib.suppress(OSError):
            folder.rmdir()


def restore_files(folder: Path, before: Mapping[str, FoundFile]) -> None:
    """Remove what was made or changed since `before` was there. Nothing may run in the folder."""
    removed_tree(folder, frozenset(path.partition("/")[0] for path in before) | {""})
    for _ in range(_PASSES):
        others = [path for path, each in files_in(folder).items() if before.get(path) != each]
        for path in others:
            with contextlib.suppress(OSError):
                remove_file(folder, path)
        if not others:
            break
