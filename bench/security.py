"""Runs the attacks of the table against real processes and writes docs/security.md: attack, bound, figure.

    python bench/security.py [--only H2 ...] [--check]

A bound that is not held ends the run with status 1, and nothing is written. `--only` plays some of them, by their keys, and
writes nothing; `--check` says whether the page has the rows of the table, whatever their figures. Takes some five minutes.
"""

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import stand
from attacked import Breach, Stage
from attacks_engines import ENGINES
from attacks_wire import WIRE, Scene
from attacks_work import AFTER, CALLBACK, DURING, LATE, WORK, Work

__all__ = ["ATTACKS", "PAGE", "rows_of"]

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
ATTACKS: tuple[Work | Scene, ...] = (*WORK, *WIRE, *ENGINES)
HEAD = f"""# Attacks, and what holds them

<!-- Written by bench/security.py: `make security` plays every attack again and writes this page anew. -->

No client and no engine can slow down or break the requests of others. Each line below is an attack that is run against
`smg-gateway serve` before embedded engines (context 32,768), the bound that stops it, and what was measured. The run fails if a
bound is exceeded. Names in code are [settings](configuration.md); [Bounds](bounds.md) says what each is for.

## Work

| column | what it is | at most |
|---|---|---|
| callback | CPU time of the longest callback of the event loop | {CALLBACK * 1000:.0f} ms |
| late | how late a timer of 5 ms on the event loop was, less what other programs kept from its thread | {LATE * 1000:.0f} ms |
| during | resident memory over that before the attack, while it was answered | {DURING:.0f} MiB |
| after | the same, once it had been answered | {AFTER:.0f} MiB |

| | attack | bound | answer | seconds | callback | late | during | after |
|---|---|---|---|---|---|---|---|---|
"""
WIRE_HEAD = """
## Clients

| | attack | bound | figure |
|---|---|---|---|
"""
ENGINES_HEAD = """
## Engines

| | attack | bound | figure |
|---|---|---|---|
"""


def start_of(attack: Work | Scene) -> str:
    """The columns of a row that are the table's; figures follow."""
    return f"| {attack.key} | {attack.name} | {attack.bound} |"


def rows_of(page: str) -> list[str]:
    """What is before the figures in every row of a page."""
    known = {attack.key for attack in ATTACKS}
    rows = [line for line in page.splitlines() if line.startswith("| ") and line[2:].partition(" |")[0] in known]
    return ["|".join(row.replace("\\|", "\0").split("|")[:4]).replace("\0", "\\|") + "|" for row in rows]


def play(attacks: Iterable[Work | Scene]) -> tuple[dict[str, str], list[str]]:
    """The row of each attack, and the breaches."""
    rows: dict[str, str] = {}
    breaches: list[str] = []
    with Stage() as stage:
        for attack in attacks:
            try:
                figures = attack.play(stage)
            except Breach as breach:
                breaches.append(f"{attack.key} {attack.name}: {breach}")
                print(f"BREACH {breaches[-1]}", flush=True)
            else:
                rows[start_of(attack)] = f"{start_of(attack)} {' | '.join(figures)} |\n"
                print(rows[start_of(attack)], end="", flush=True)
    return rows, breaches


def page(rows: dict[str, str]) -> str:
    """The whole page."""
    parts: list[str] = []
    for head, attacks in ((HEAD, WORK), (WIRE_HEAD, WIRE), (ENGINES_HEAD, ENGINES)):
        parts += [head, *(rows[start_of(attack)] for attack in attacks)]
    return "".join([*parts, f"\nSeen on {stand.machine()}.\n"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="KEY", help="play the attacks of these keys")
    parser.add_argument("--check", action="store_true", help="compare the page's rows with the table")
    args = parser.parse_args(arguments)
    if args.check:
        if rows_of(PAGE.read_text()) == [start_of(attack) for attack in ATTACKS]:
            return 0
        print("docs/security.md has other rows than bench/security.py: run `make security`", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the stage, which ends what it started
    chosen = [attack for attack in ATTACKS if not args.only or set(attack.key.split(", ")) & set(args.only)]
    rows, breaches = play(chosen)
    if breaches:
        print(*breaches, sep="\n", file=sys.stderr)
        return 1
    if not args.only:
        PAGE.write_text(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
