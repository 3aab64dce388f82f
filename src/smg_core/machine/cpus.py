"""The number of CPUs for this process (edge).

Read once at the start, where the settings leave a number of processes or threads open. A container or a service may have less
than the machine: by the CPUs that it is bound to, or by the time that its control group may take of them. Above: serve, loading,
media. Below: nothing.
"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

__all__ = ["granted_cpus", "usable_cpus"]

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """The CPUs that this process is bound to, or fewer where its control group or one above may take less time; at least 1."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(bound, granted_cpus(_text_of))))


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def granted_cpus(text_of: Callable[[Path], str | None]) -> float:
    """The CPUs whose whole time the control groups of this process grant, by files that `text_of` reads (None: not there).
    Infinite where none says so."""
    own = text_of(_OWN_GROUP) or ""
    found = math.inf
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found = min([found, *(_share(text_of(each / "cpu.max")) for each in _upwards(_GROUPS, path))])
        elif "cpu" in controllers.split(","):
            found = min([found, *(_older_share(each, text_of) for each in _upwards(_GROUPS / "cpu", path))])
    return found


def _upwards(root: Path, path: str) -> Iterator[Path]:
    """The folders of a control group and of those above it. Inside a container its own may be shown as the root."""
    group = PurePosixPath(path.lstrip("/"))
    for each in (group, *group.parents):
        yield root / each


def _share(line: str | None) -> float:
    """Of version 2: microseconds in a period, or "max", and the period."""
    quota, _, period = (line or "max").strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else math.inf


def _older_share(folder: Path, text_of: Callable[[Path], str | None]) -> float:
    """Of version 1: the same in two files; a quota of -1 is none."""
    quota, period = (text_of(folder / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    return _share(f"{quota.strip()} {period.strip()}")
