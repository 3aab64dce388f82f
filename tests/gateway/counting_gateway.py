"""A gateway that counts its own Python calls: `python -m tests.gateway.counting_gateway FILE serve ...`.

SIGUSR1 begins to count, and SIGUSR2 ends it and writes FILE: a JSON object with how often each function was entered, or resumed
where it is a coroutine or generator, by "path of its module:its name".
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests import bounded

from smg_core.cli import main

ROOTS = ("/src/", "/site-packages/", "/lib/python3.11/")


def name_of(code: CodeType) -> str:
    path = code.co_filename
    for root in ROOTS:
        path = path.rpartition(root)[2]
    return f"{path}:{code.co_qualname}"


def counted(file: Path) -> None:
    """Have the signals count the calls of this thread, into `file`."""
    counts: Counter[CodeType] = Counter()

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    def begin(*_: object) -> None:
        counts.clear()
        sys.setprofile(called)

    def end(*_: object) -> None:
        sys.setprofile(None)
        found: Counter[str] = Counter()
        for code, count in counts.items():
            found[name_of(code)] += count
        written = file.with_suffix(".new")
        written.write_text(json.dumps(found))
        written.replace(file)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


if __name__ == "__main__":
    counted(Path(bounded.given[0]))
    sys.argv[1:] = bounded.given[1:]
    main()
