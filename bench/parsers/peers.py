"""Other parsers on our corpus: makes docs/parsers/peers.md anew, in one command.

    pip download --no-deps vllm sglang bfcl-eval      # and install or unpack: see "How this page is made" on the page
    python bench/parsers/peers.py --python VENV/bin/python --sglang FOLDER --bfcl FOLDER --tokenizer FOLDER

VENV is an environment in which vLLM's wheel and what its parsers import are installed; SGLang's and the leaderboard's wheels are
only unpacked. Every difference must have a judgement in `judged.json`; those that have none are printed, and the status is 1.
`--records FOLDER` keeps what the peers said, and takes it from there if it is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bfcl
import peer_cases
from peer_cases import ROOT, STEP, WAYS, Heard

from smg_parsers import FAMILIES, CallArguments, CallStart, Parser, Reasoning

HERE = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "parsers" / "peers.md"
PEERS = {"vllm": "vLLM", "sglang": "SGLang"}
VERDICTS = {"theirs": "theirs", "rule": "a rule"}
KEPT = "## Speed, side by side"
NAMES_SHOWN = 3


@dataclass(slots=True)
class Results:
    """What one peer made of the corpus: by family and transcript, by way; and the families that it could not read at all."""

    heard: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run(peer: str, options: argparse.Namespace) -> Results:
    """The peer's results, from its own interpreter or from where an earlier run kept them."""
    kept = options.records / f"{peer}.jsonl" if options.records else None
    if kept is not None and kept.exists():
        return read(kept.read_text(encoding="utf-8"))
    command = [str(options.python), str(HERE / f"peers_{peer}.py"), "--tokenizer", str(options.tokenizer)]
    if peer == "sglang":
        command += ["--folder", str(options.sglang)]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "CUDA_VISIBLE_DEVICES": ""}
    told = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(told, encoding="utf-8")
    return read(told)


def read(lines: str) -> Results:
    """The records of one peer. What else its libraries printed is passed over."""
    results = Results()
    for line in lines.splitlines():
        record = json.loads(line) if line.startswith("{") else {}
        if "case" in record:
            results.heard.setdefault((record["family"], record["case"]), {})[record["way"]] = record["got"]
        elif "family" in record:
            results.failed[record["family"]] = record["error"]
    return results


def ours(family: str, case: Mapping[str, Any], way: str) -> Heard:
    """What our parser makes of a transcript; it sees no tokens, so `by token` is one character at a time."""
    text = case["text"]
    size = {"whole": max(len(text), 1), "by token": 1, "4 characters": STEP}[way]
    parser = Parser.for_family(family, tools=case.get("tools"), in_reasoning=case.get("in_reasoning"))
    pieces = [piece for at in range(0, len(text), size) for piece in parser.feed(text[at : at + size])]
    pieces += parser.finish()
    names, arguments = list[str](), defaultdict[int, str](str)
    for piece in pieces:
        if isinstance(piece, CallStart):
            names.append(piece.name)
        elif isinstance(piece, CallArguments):
            arguments[piece.index] += piece.delta
    reasoning = "".join(piece.text for piece in pieces if isinstance(piece, Reasoning))
    try:
        return reasoning.strip(), [(name, json.loads(arguments[at] or "{}")) for at, name in enumerate(names)]
    except json.JSONDecodeError:
        return reasoning.strip(), [(name, None) for name in names]


def same(got: Any, want: Heard) -> bool:
    """Whether a result is what was wanted; a failure is a text."""
    return not isinstance(got, str) and bool(_plain(got) == _plain(want))


def _plain(heard: Any) -> Any:
    return [heard[0], [[name, arguments] for name, arguments in heard[1]]]


class Comparison:
    """The corpus, what everyone made of it, and what was judged of the differences."""

    def __init__(self, results: Mapping[str, Results], judge: bfcl.Judge) -> None:
        self.results = results
        self.judge = judge
        self.rules = json.loads((HERE / "judged.json").read_text(encoding="utf-8"))
        self.cases = {(family, case["name"]): case for family in FAMILIES for case in peer_cases.cases(family)}

    def table(self, peer: str) -> list[str]:
        """Rows of a peer's table: by family, how often each way gives what the corpus says."""
        families: dict[str, Counter[str]] = defaultdict(Counter)
        differing: dict[str, list[str]] = defaultdict(list)
        for (family, name), heard in self.results[peer].heard.items():
            want = self.wanted(family, name)
            families[family]["cases"] += 1
            for way in WAYS:
                families[family][way] += same(heard.get(way), want)
            if not same(heard.get("by token"), want):
                differing[family].append(name)
        rows = []
        for family, counts in families.items():
            names = "; ".join(differing[family][:NAMES_SHOWN]) + (" …" if len(differing[family]) > NAMES_SHOWN else "")
            cells = " | ".join(str(counts[key]) for key in ("cases", *WAYS))
            rows.append(f"| `{family}` | {cells} | {names or '–'} |")
        total = sum(families.values(), Counter[str]())
        return [*rows, f"| all | {' | '.join(str(total[key]) for key in ('cases', *WAYS))} | |"]

    def wanted(self, family: str, name: str) -> Heard:
        """What the corpus says; every recorded transcript has it."""
        want = peer_cases.wanted(self.cases[family, name], True)
        if want is None:
            raise ValueError(f"{family}: {name!r} is not for this comparison; make the records anew")
        return want

    def differences(self) -> tuple[list[str], list[str]]:
        """Rows of judged differences, and those that nobody has judged; streamed in fours is left out, for it cuts markers."""
        found: dict[str, dict[str, dict[str, set[str]]]] = defaultdict(
            lambda: {peer: defaultdict(set) for peer in PEERS}
        )
        verdicts: dict[str, str] = {}
        unjudged = []
        for peer, results in self.results.items():
            for (family, name), heard in results.heard.items():
                ways = [way for way in WAYS[:2] if not same(heard.get(way), self.wanted(family, name))]
                rule = self.rule(peer, family, name)
                if ways and rule is None:
                    unjudged.append(f"{peer}: {family}: {name}: {', '.join(ways)}")
                elif ways and rule is not None:
                    verdicts[rule["why"]] = VERDICTS[rule["verdict"]]
                    found[rule["why"]][peer][family].add(name)
        rows = [
            f"| {_cell(why)} | {verdicts[why]} | {' | '.join(_families(by_peer[peer]) for peer in PEERS)} |"
            for why, by_peer in sorted(found.items(), key=lambda item: -sum(map(_count, item[1].values())))
        ]
        return rows, unjudged

    def rule(self, peer: str, family: str, name: str) -> dict[str, Any] | None:
        """The first judgement that fits a difference."""
        for rule in self.rules:
            fits = (
                rule.get("peer", peer) == peer,
                re.fullmatch(rule.get("family", ".*"), family),
                re.fullmatch(rule["case"], name),
            )
            if all(fits):
                return dict(rule)
        return None

    def scores(self) -> tuple[list[str], Counter[str]]:
        """Rows of the leaderboard's score by family, streamed by token, and the sums."""
        judged = [key for key in self.cases if self._judged(key)]
        total: Counter[str] = Counter()
        rows = []
        for family in dict.fromkeys(family for family, _ in judged):
            keys = [key for key in judged if key[0] == family]
            counts = {who: self._score(who, keys) for who in ("ours", *PEERS)}
            rows.append(f"| `{family}` | {' | '.join(_share(*counts[who]) for who in counts)} |")
            for who, (right, all_) in counts.items():
                total.update({who: right, f"{who} of": all_})
        whole = " | ".join(_share(total[who], total[f"{who} of"]) for who in ("ours", *PEERS))
        return [*rows, f"| all | {whole} |"], total

    def _judged(self, key: tuple[str, str]) -> bool:
        want = peer_cases.wanted(self.cases[key], True)
        tools = self.cases[key].get("tools")
        return bool(tools) and want is not None and self.judge.accepts(tools or (), want[1], want[1])

    def _score(self, who: str, keys: Sequence[tuple[str, str]]) -> tuple[int, int]:
        right = all_ = 0
        for family, name in keys:
            case = self.cases[family, name]
            if who == "ours":
                got: Any = ours(family, case, "by token")
            else:
                heard = self.results[who].heard.get((family, name))
                if heard is None:
                    continue
                got = heard["by token"]
            all_ += 1
            want = self.wanted(family, name)[1]
            right += not isinstance(got, str) and self.judge.accepts(case["tools"], want, got[1])
        return right, all_

    def our_failures(self) -> list[str]:
        """Where our own parser does not give what the corpus says: there should be none."""
        return [
            f"ours: {family}: {name}: {way}"
            for (family, name), case in self.cases.items()
            for way in WAYS
            if (want := peer_cases.wanted(case, True)) is not None and not same(ours(family, case, way), want)
        ]


def _count(families: Mapping[str, set[str]]) -> int:
    return sum(map(len, families.values()))


def _families(found: Mapping[str, set[str]]) -> str:
    if not found:
        return "–"
    names = [f"`{family}`" for family in found]
    shown = ", ".join(names[:NAMES_SHOWN]) + (
        f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    )
    return f"{_count(found)}: {shown}"


def _share(right: int, all_: int) -> str:
    return f"{right} of {all_}" if all_ else "–"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(comparison: Comparison, versions: Mapping[str, str], kept: str) -> tuple[str, list[str]]:
    """The page, and the differences that nobody has judged."""
    rows, unjudged = comparison.differences()
    scores, _ = comparison.scores()
    failed = "; ".join(
        f"{PEERS[peer]} `{family}` ({error.partition(':')[0]})"
        for peer, results in comparison.results.items()
        for family, error in results.failed.items()
    )
    tables = "\n\n".join(
        f"## {name} {versions[peer]}\n\n| family | cases | {' | '.join(WAYS)} | differing by token |\n"
        f"|---|---|---|---|---|---|\n" + "\n".join(comparison.table(peer))
        for peer, name in PEERS.items()
    )
    text = (HERE / "peers_page.md").read_text(encoding="utf-8")
    values = {
        "vllm": versions["vllm"],
        "sglang": versions["sglang"],
        "bfcl": versions["bfcl"],
        "tables": tables,
        "differences": "| what differs | whose | "
        + " | ".join(PEERS.values())
        + " |\n|---|---|---|---|\n"
        + "\n".join(rows),
        "scores": "| family | ours | " + " | ".join(PEERS.values()) + " |\n|---|---|---|---|\n" + "\n".join(scores),
        "failed": f" Not read at all: {failed}." if failed else "",
        "judged": str(sum(1 for row in scores) - 1),
    }
    for key, value in values.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    return text.rstrip() + "\n\n" + kept, unjudged


def version(folder: Path, name: str) -> str:
    """The version of a wheel that was installed or unpacked into this folder."""
    found = sorted(folder.glob(f"**/{name}-*.dist-info"))
    return found[0].name.removeprefix(f"{name}-").removesuffix(".dist-info") if found else ""


def main() -> int:
    """Make the page anew."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", type=Path, required=True, help="the interpreter that has vLLM")
    options.add_argument("--sglang", type=Path, required=True, help="where SGLang's wheel was unpacked")
    options.add_argument("--bfcl", type=Path, required=True, help="where the wheel of bfcl-eval was unpacked")
    options.add_argument("--tokenizer", type=Path, required=True, help="any fast byte-level tokenizer")
    options.add_argument("--records", type=Path, help="where to keep what the peers said, or take it from")
    chosen = options.parse_args()
    comparison = Comparison({peer: run(peer, chosen) for peer in PEERS}, bfcl.Judge(chosen.bfcl))
    versions = {
        "vllm": version(chosen.python.parent.parent / "lib", "vllm"),
        "sglang": version(chosen.sglang, "sglang"),
        "bfcl": version(chosen.bfcl, "bfcl_eval"),
    }
    before = PAGE.read_text(encoding="utf-8")
    text, unjudged = page(comparison, versions, before[before.index(KEPT) :])
    PAGE.write_text(text, encoding="utf-8")
    wrong = [*comparison.our_failures(), *unjudged]
    print("\n".join([*wrong, f"{PAGE.relative_to(ROOT)} is made; {len(wrong)} to look at"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
