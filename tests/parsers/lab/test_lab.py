"""The lab, its page, the command line and the pytest plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.parsers.examples import EXAMPLES, WEATHER

from smg_parsers import FAMILIES, CallArguments, CallEnd, CallStart, Family, Parser, Piece, Text
from smg_parsers.__main__ import main
from smg_parsers.grammars.tool_json import JsonCalls
from smg_parsers.lab import transcripts
from smg_parsers.lab.lab import examine, steps, write_page


class Forgetful:
    """Drops white space at the end of every chunk."""

    def feed(self, text: str) -> list[Piece]:
        return [Text(text.rstrip())] if text.strip() else []

    def finish(self) -> list[Piece]:
        return []


def qwen() -> Parser:
    return Parser.for_family("qwen3", tools=[WEATHER], in_reasoning=False)


@pytest.mark.full
def test_a_good_parser_passes_every_law() -> None:
    report = examine("qwen3", qwen, [f"Hi {EXAMPLES['qwen3'][1]} bye"], family=FAMILIES["qwen3"])
    assert report.passed, str(report)
    assert [report.verdict(law) for law in ("split invariance", "order", "conservation", "linearity")] == ["kept"] * 4


def test_a_bad_parser_is_told_what_it_did_on_which_text() -> None:
    report = examine("forgetful", Forgetful, ["a b "], family=FAMILIES["plain"], linear=False)
    assert report.verdict("split invariance") == "broken"
    assert report.verdict("conservation") == "broken"
    assert report.verdict("linearity") == "not checked"
    assert "'a b '" in str(report)


def test_the_page_shows_parsers_by_law_and_steps_and_escapes_what_models_write(tmp_path: Path) -> None:
    report = examine("<b>mine", qwen, ["<script>alert(1)</script>"], linear=False)
    write_page([report], tmp_path / "lab.html", [("qwen3", steps(qwen, "<think>a</think><script>"))])
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;mine" in page
    assert "<b>mine" not in page
    assert "Reasoning" in page
    assert "http" not in page


def test_the_steps_show_what_came_out_for_what_was_fed() -> None:
    shown = steps(qwen, "Hello<thi", size=5)
    assert [step.chunk for step in shown] == ["Hello", "<thi", ""]
    assert [len(step.pieces) for step in shown] == [1, 0, 1]


def test_explain_prints_the_family_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "moonshotai/Kimi-K2-Instruct"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("kimi_k2: the model id contains 'kimi-k2'")
    assert "special tokens must be kept: yes" in out


def test_explain_reads_a_template_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = tmp_path / "chat_template.jinja"
    template.write_text("<|tools_prefix|>", encoding="utf-8")
    assert main(["explain", "acme/chat", "--template", str(template)]) == 0
    assert capsys.readouterr().out.startswith("apertus")


def test_an_unknown_model_is_an_error_and_its_own_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "acme/chat"]) == 2
    assert "acme/chat" in capsys.readouterr().err


def test_parse_prints_one_piece_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output.txt").write_text(EXAMPLES["glm45"][1], encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps([WEATHER]), encoding="utf-8")
    status = main(["parse", "--family", "glm45", str(tmp_path / "output.txt"), "--tools", str(tmp_path / "tools.json")])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [line["piece"] for line in lines] == ["CallStart", "CallArguments", "CallEnd"]
    assert json.loads(lines[1]["delta"]) == {"city": "Paris", "days": 2}


def test_the_lab_command_says_whether_the_law_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "lab.html"
    assert main(["lab", "qwen3", "plain", "--no-linearity", "--page", str(page)]) == 0
    assert "0 breaches" in capsys.readouterr().out
    assert page.exists()


def test_the_module_runs_as_a_program_with_nothing_but_the_standard_library() -> None:
    source = Path(__file__).resolve().parents[3] / "src"
    done = subprocess.run(
        [sys.executable, "-S", "-m", "smg_parsers", "explain", "zai-org/GLM-4.6"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(source)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("glm46")


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    source = Path(__file__).resolve().parents[3] / "src"
    return subprocess.run(
        [sys.executable, "-m", "smg_parsers", *arguments],
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(source), **options.pop("env", {})},
        **options,
    )


def test_a_file_is_read_with_its_own_line_endings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output.txt").write_bytes("a\r\nb\rc\n é\x0b".encode())
    assert main(["parse", "--family", "plain", str(tmp_path / "output.txt")]) == 0
    assert json.loads(capsys.readouterr().out) == {"piece": "Text", "text": "a\r\nb\rc\n é\x0b"}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_standard_input_is_read_as_bytes_and_the_output_is_json_in_every_encoding(encoding: str) -> None:
    done = run("parse", "--family", "plain", "-", input="é\r\n".encode(), env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == "é\r\n"


def test_a_model_or_its_template_finds_the_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output.txt").write_text(EXAMPLES["glm45"][1], encoding="utf-8")
    (tmp_path / "template.jinja").write_text("<tool_call><arg_key>", encoding="utf-8")
    results = []
    for asked in (
        ["--model", "zai-org/GLM-4.5"],
        ["--template", str(tmp_path / "template.jinja")],
        ["--model", "acme/Qwen3-agent", "--template", str(tmp_path / "template.jinja")],
    ):
        assert main(["parse", *asked, str(tmp_path / "output.txt")]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        results.append([line["piece"] for line in lines])
    assert results == [["CallStart", "CallArguments", "CallEnd"]] * 3
    assert main(["explain", "--template", str(tmp_path / "template.jinja")]) == 0
    assert capsys.readouterr().out.startswith("glm47: the chat template contains '<arg_key>'")
    assert main(["explain", "--model", "moonshotai/Kimi-K2-Instruct"]) == 0
    assert capsys.readouterr().out.startswith("kimi_k2")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "COMMAND"),
        (["explain"], "name a model"),
        (["explain", "Qwen3-8B", "--model", "GLM-5"], "one model"),
        (["explain", "acme/chat"], "acme/chat"),
        (["explain", "Qwen3-8B", "--template", "no-such-file"], "no-such-file"),
        (["explain", "--tempalte", "x"], "--tempalte"),
        (["parse", "{}/text", "--family", "nonesuch"], "nonesuch"),
        (["parse", "{}/text"], "--family"),
        (["parse", "{}/text", "--family", "qwen3", "--model", "qwen3"], "not both"),
        (["parse", "no-such-file", "--family", "qwen3"], "no-such-file"),
        (["parse", "{}", "--family", "qwen3"], "directory"),
        (["parse", "{}/latin", "--family", "qwen3"], "latin is not UTF-8: byte 0xe9 at 3"),
        (["parse", "{}/text", "--family", "qwen3", "--tools", "{}/text"], "text is not JSON"),
        (["parse", "{}/text", "--family", "qwen3", "--tools", "{}/word"], "tools must be a list, not 'get_weather'"),
        (["parse", "{}/text", "--family", "qwen3", "--tools", "{}/null"], "tools must be a list, not None"),
        (["lab", "nonesuch"], "nonesuch"),
        (["lab", "plain", "--transcript", "no-such-file"], "no-such-file"),
        (["lab", "plain", "--no-linearity", "--page", "{}/no/such/folder.html"], "folder.html"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    for name, content in (("text", b"a text"), ("latin", b"caf\xe9"), ("word", b'"get_weather"'), ("null", b"null")):
        (tmp_path / name).write_bytes(content)
    assert main([argument.format(tmp_path) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.startswith("smg_parsers: ")
    assert error.endswith("\n")
    assert error.count("\n") == 1


def test_a_broken_law_is_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smg_parsers.__main__.Parser", lambda *_, **__: Forgetful())
    (tmp_path / "output.txt").write_text("a b ", encoding="utf-8")
    assert main(["lab", "plain", "--no-linearity", "--transcript", str(tmp_path / "output.txt")]) == 1
    assert "split invariance" in capsys.readouterr().out


@pytest.mark.parametrize("family", [name for name, row in FAMILIES.items() if row.calls])
def test_the_built_in_transcripts_hold_calls_in_every_family_that_has_them(family: str) -> None:
    row = FAMILIES[family]
    for text in (transcripts.calls(row), transcripts.with_calls(row)):
        assert text in (*transcripts.of(row), transcripts.calls(row))
        pieces = Parser(row, tools=transcripts.TOOLS, in_reasoning=False).parse(text)
        names = [piece.name for piece in pieces if isinstance(piece, CallStart)]
        arguments = [json.loads(piece.delta) for piece in pieces if isinstance(piece, CallArguments)]
        wanted = transcripts.CALLS[: len(names)]
        assert list(zip(names, arguments, strict=True)) == list(wanted)
        assert len([piece for piece in pieces if isinstance(piece, CallEnd)]) == len(names) >= 1
    assert len(names) == 2 or family == "gigachat3"  # which writes at most one call


def test_a_row_of_ones_own_gets_transcripts_with_json_calls() -> None:
    row = Family("acme", calls=(JsonCalls(opens=("<act>",), closes=("</act>",)),))
    pieces = Parser(row, tools=transcripts.TOOLS).parse(transcripts.with_calls(row))
    assert [piece.name for piece in pieces if isinstance(piece, CallStart)] == ["get_weather"] * 2


@pytest.mark.full
def test_the_page_of_the_lab_command_steps_through_the_calls_of_every_family(tmp_path: Path) -> None:
    page = tmp_path / "lab.html"
    assert main(["lab", "qwen3", "deepseek_v32", "plain", "--no-linearity", "--page", str(page)]) == 0
    told = page.read_text(encoding="utf-8")
    assert [name in told for name in ("<option>qwen3", "<option>deepseek_v32", "<option>plain")] == [True] * 3
    assert told.count("CallStart(index=0") == 2
    assert told.count("CallEnd(index=1") == 2


PLUGIN_TEST = """
from smg_parsers import FAMILIES, Parser, Text

class Drops:
    def feed(self, text):
        return [Text(text.replace("z", ""))]
    def finish(self):
        return []

def test_good(parser_law):
    parser_law(lambda: Parser.for_family("qwen3"), ["a <think>b</think> c"], family=FAMILIES["qwen3"], linear=False)

def test_bad(parser_law):
    parser_law(Drops, ["xyz"], family=FAMILIES["plain"], linear=False)
"""


@pytest.mark.full
def test_the_plugin_passes_a_good_parser_and_fails_a_bad_one(tmp_path: Path) -> None:
    (tmp_path / "test_plugin.py").write_text(PLUGIN_TEST, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "conservation" in done.stdout
