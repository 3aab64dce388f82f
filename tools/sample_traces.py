"""Writes the sample traces in examples/traces, one in each format that `smg-gateway simulate-fleet` reads; with `--check`, only
says whether they are what it would write. They are made by the generators of the simulator: nobody's requests are in them.

python tools/sample_traces.py [--check]
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from smg_simulator.fleet.generated import Load, generated
from smg_simulator.fleet.trace import FleetRequest

__all__ = ["FOLDER", "samples"]

FOLDER = Path(__file__).parent.parent / "examples" / "traces"
REQUESTS, RATE, MOONCAKE_BLOCK = 200, 4.0, 512
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def samples() -> dict[str, str]:
    """The text of each file, by its name."""
    long = generated("long", Load(REQUESTS, RATE / 10, block=MOONCAKE_BLOCK, seed=1)).requests
    chats = generated("chat", Load(REQUESTS, RATE, block=16, seed=2)).requests
    bursts = generated("bursts", Load(REQUESTS, RATE, block=16, seed=3)).requests
    return {"mooncake.jsonl": _mooncake(long), "azure.csv": _azure(bursts), "burstgpt.csv": _burst_gpt(chats)}


def _mooncake(requests: Sequence[FleetRequest]) -> str:
    names: dict[int, int] = {}
    lines = [
        json.dumps(
            {
                "timestamp": round(each.at * 1000),
                "input_length": each.prompt_tokens,
                "output_length": each.output_tokens,
                "hash_ids": [names.setdefault(block, len(names)) for block in each.blocks],
            }
        )
        for each in requests
    ]
    return "\n".join(lines) + "\n"


def _azure(requests: Sequence[FleetRequest]) -> str:
    rows = [
        (f"{BEGIN + timedelta(seconds=each.at):%Y-%m-%d %H:%M:%S.%f}", each.prompt_tokens, each.output_tokens)
        for each in requests
    ]
    return _table(("TIMESTAMP", "ContextTokens", "GeneratedTokens"), rows)


def _burst_gpt(requests: Sequence[FleetRequest]) -> str:
    rows = [
        (
            f"{each.at:.3f}",
            each.session or number,
            "sample",
            each.prompt_tokens,
            each.output_tokens,
            each.prompt_tokens + each.output_tokens,
        )
        for number, each in enumerate(requests)
    ]
    return _table(("Timestamp", "Session ID", "Model", "Request tokens", "Response tokens", "Total tokens"), rows)


def _table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    return written.getvalue()


def main(arguments: Sequence[str]) -> int:
    """Write the files, or compare them."""
    files = {FOLDER / name: text for name, text in samples().items()}
    if "--check" not in arguments:
        FOLDER.mkdir(exist_ok=True)
        for path, text in files.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path} is not what tools/sample_traces.py writes", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
