"""Runs make targets beside each other, shows what each says in one piece, and ends with those that failed.

    python tools/check.py lint types architecture

A target that fails is named at the end with the command that runs it alone. How long all took is kept in build/check.json, for
the first line of the next run.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).parent.parent
LAST = ROOT / "build" / "check.json"
AT_A_TIME = 3
"""Targets that run at a time: the longest waits for files in between, so one more than the cores of a small machine."""


def main(targets: list[str]) -> int:
    lasted = (
        f"{json.loads(LAST.read_text())['seconds']} seconds the last time here"
        if LAST.exists()
        else "the first time here"
    )
    print(f"make check: {', '.join(targets)}; {lasted}", flush=True)
    started, showing = time.monotonic(), Lock()

    def run(target: str) -> int:
        begun = time.monotonic()
        done = subprocess.run(  # noqa: S603  (a target of the Makefile)
            [os.environ.get("MAKE", "make"), "--no-print-directory", target],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        with showing:
            sys.stdout.buffer.write(done.stdout)
            print(
                f"{'FAILED' if done.returncode else 'passed'}: make {target} ({time.monotonic() - begun:.0f} s)",
                flush=True,
            )
        return done.returncode

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        codes = dict(zip(targets, pool.map(run, targets), strict=True))
    failed = [target for target, code in codes.items() if code]
    if not failed:
        LAST.parent.mkdir(exist_ok=True)
        LAST.write_text(json.dumps({"seconds": round(time.monotonic() - started)}))
        return 0
    print("failed; run alone with:", *(f"    make {target}" for target in failed), sep="\n", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
