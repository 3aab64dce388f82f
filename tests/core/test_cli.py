"""The command line: flags become settings, mistakes become one line each, and the exit status says which it was."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.config.config import Config, describe, load_config
from smg_core.routing.named import POLICIES
from smg_core.settings import Setting


@pytest.fixture(autouse=True)
def no_settings_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in describe():
        monkeypatch.delenv(setting.env, raising=False)
    monkeypatch.delenv("SMG_CONFIG", raising=False)


OF_A_FORM = {
    "model.aliases": "claude-*=llama",
    "model.tenant_aliases": "acme:claude-*=llama",
    "routing.splits": "llama=llama-a:9,llama-b:1",
    "routing.fallbacks": "llama=qwen,mistral",
    "routing.shadows": "llama=qwen:0.1",
    "timeouts.models": "llama=first_token:300",
    "pooling.prefixes": "query=search: ",
    "pooling.scoring": "llama=generative",
    "realtime.udp_ports": "50000-50999",
    "workers.adapters": "sql=llama:/adapters/sql",
}
"""Settings whose text must be of a certain form; `|` stands between the values of one that is repeated."""


def _another(setting: Setting) -> str:
    """A value the setting may take; for a secret, the one it is shown as."""
    if setting.secret:
        return "***"
    if setting.path in OF_A_FORM:
        return OF_A_FORM[setting.path]
    if setting.choices:
        return setting.choices[-1]
    if setting.kind in ("integer", "number"):
        return str(int(max(setting.at_least or 0, min(4096, setting.at_most or 4096))))
    return "true" if setting.kind == "boolean" else "x"


def test_every_setting_has_a_flag_that_sets_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments, overrides = [], {}
    for setting in describe():
        value = _another(setting)
        values = value.split("|") if setting.repeated else [value]
        overrides[setting.path] = values if setting.repeated else value
        for each in values:
            arguments += [setting.flag] if setting.kind == "boolean" else [setting.flag, each]

    status = main(["config", *arguments])

    assert status == 0
    assert load_config(file_text=capsys.readouterr().out) == load_config(overrides)


LEANS = re.compile(
    r"^(?:the same|that|their|they|it|those)\b|\b(?:such|these)\b|\bin that time\b|\bfor that$"
    r"|\b(?:this|that) (?:port|file|cache|proof|key|certificate)\b",
    re.IGNORECASE,
)
"""Words at the head of a text that speak of what another text has said."""


def heads_that_lean() -> list[str]:
    heads = {setting.path: re.split(r"[.;:,](?: |$)", setting.text)[0] for setting in describe()}
    return [path for path, head in heads.items() if LEANS.search(head)]


def test_the_text_of_a_setting_can_be_read_without_its_neighbours() -> None:
    texts = Counter(setting.text for setting in describe())
    assert heads_that_lean() == []
    assert [text for text, times in texts.items() if times > 1] == []


def test_the_text_of_a_setting_names_others_by_their_section() -> None:
    names = {setting.path.partition(".")[2] for setting in describe()}
    said = {
        setting.path: re.findall(r"(?<![\w./-])[a-z0-9]+(?:_[a-z0-9]+)+(?![\w.])", setting.text)
        for setting in describe()
    }
    assert {path: [word for word in words if word in names] for path, words in said.items() if {*words} & names} == {}


def test_a_boolean_has_a_flag_for_no(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "--no-server-docs"])

    assert load_config(file_text=capsys.readouterr().out).server.docs is False


def test_a_repeatable_flag_gathers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "--worker", "grpc://a:1", "--worker", "grpc://b:1"])

    assert load_config(file_text=capsys.readouterr().out).workers.urls == ("grpc://a:1", "grpc://b:1")


def test_the_file_is_named_by_a_flag_or_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flag.yaml").write_text("server: {port: 1}")
    (tmp_path / "variable.toml").write_text("[server]\nport = 2")
    monkeypatch.setenv("SMG_CONFIG", str(tmp_path / "variable.toml"))

    ports = []
    for arguments in ([], ["--config", str(tmp_path / "flag.yaml")]):
        main(["config", *arguments])
        ports.append(load_config(file_text=capsys.readouterr().out).server.port)

    assert ports == [2, 1]


def test_sources_are_told_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", "--sources", "--port", "5"])

    assert "  port: 5  # flag: --port\n" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.sampled(keep=10)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve"], "no engine to send requests to: give --worker grpc://host:port, --workers-file, --discover-dns or"),
        (["serve", "--prot", "1"], "--prot: no such flag of `smg-gateway serve`; did you mean --port?"),
        (["serve", "--prot=1"], "--prot: no such flag of `smg-gateway serve`; did you mean --port?"),
        (["serve", "--hos", "a"], "--hos: no such flag of `smg-gateway serve`; did you mean --host?"),
        (["serve", "--server-port", "1"], "--server-port: no such flag of `smg-gateway serve`; did you mean --port?"),
        (["serve", "--server-drian-s", "1"], "no such flag of `smg-gateway serve`; did you mean --server-drain-s?"),
        (
            ["simulate", "--port", "1"],
            "--port: no such flag of `smg-gateway simulate` (see `smg-gateway simulate --help`)",
        ),
        (["demo", "now"], "now: `smg-gateway demo` takes no such argument (see `smg-gateway demo --help`)"),
        (
            ["plugin", "check", "a.wasm", "--config", "x"],
            "--config: no such flag of `smg-gateway plugin check` (see `smg-gateway plugin check --help`)",
        ),
        (
            ["workers", "list", "--zzzz"],
            "--zzzz: no such flag of `smg-gateway workers list` (see `smg-gateway workers list --help`)",
        ),
        (["serve", "-p", "1"], "-p: no such flag of `smg-gateway serve`\n"),
        (["serve", "--worker", "grpc://a:1", "--parser", "qwen4"], "model.parser: no parser family is called 'qwen4'"),
        (
            ["serve", "--worker", "grpc://a:1", "--model-parsers", "m=qwen4"],
            "model.parsers: no parser family is called",
        ),
        (
            ["serve", "--worker", "grpc://a:1", "--media-processor-kwargs", '{"m": 1}'],
            "media.processor_kwargs is not of the form",
        ),
        (["serve", "--worker", "grpc://a:1", "--model-parsers", "qwen3"], "'qwen3' is not of the form MODEL=FAMILY"),
        (["serve", "--worker", "gpu-0"], "workers.urls: worker URL 'gpu-0' has no known scheme; use one of grpc://"),
        (["serve", "--worker", "grpc://gpu-0"], "workers.urls: worker URL 'grpc://gpu-0' names no port"),
        (["serve", "--port", "http"], 'smg-gateway: --port: expected integer, not "http"'),
        (["serve", "--port"], "argument --port: expected one argument"),
        (["serve", "--worker", "grpc://a:1", "--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
        (["serve", "--worker", "grpc://a:1", "--tokenizer", "/nowhere"], "tokenizer.path: there is no folder /nowhere"),
        (
            ["serve", "--worker", "grpc://a:1", "--workers-tls-ca", "/nowhere"],
            "workers.tls_ca: there is no file /nowhere",
        ),
        (
            ["serve", "--worker", "grpc://a:1", "--policy", "roundrobin"],
            "routing.policy: no routing policy 'roundrobin'",
        ),
        (
            ["serve", "--worker", "grpc://a:1", "--workers-dialect", "vlm"],
            "workers.dialect: no engine dialect 'vlm'; there are auto, vllm, neutral, mlx, sglang, trtllm, tokenspeed",
        ),
        (["server"], "server: no such command; did you mean serve?; there are serve, simulate,"),
        (["simulate", "--listen", "nowhere"], "--listen: nowhere: expected HOST:PORT or unix:///PATH"),
        (["serve", "--worker", "grpc://a:1", "--history", "foo:x"], "history.url: there is no store for foo:"),
        ([], "which command? There are serve, simulate, "),
    ],
)
def test_a_mistake_is_one_line_and_status_two(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(arguments)

    told = capsys.readouterr().err
    assert status == 2
    assert said in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    "source",
    [
        ["--discover-kubernetes", "--selector", "app=vllm"],
        ["--discover-kubernetes", "--prefill-selector", "app=vllm,role=prefill", "--decode-selector", "role=decode"],
        ["--discover-dns", "grpc://engines.example:50051"],
    ],
    ids=["kubernetes", "kubernetes by role", "dns"],
)
def test_a_gateway_whose_workers_are_discovered_starts_without_a_worker_that_is_named(
    source: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Config] = []

    def serve(config: Config, *_: object) -> int:
        served.append(config)
        return 0

    monkeypatch.setattr("smg_core.processes.serve.serve", serve)

    assert main(["serve", *source]) == 0
    assert [config.workers.urls for config in served] == [()]


def test_a_file_that_is_not_text_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")

    assert main(["config", "--config", str(tmp_path / "c.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])

    assert left.value.code == 0
    assert capsys.readouterr().out == f"smg-gateway {metadata.version('smg-sdk')}\n"


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("command", ["serve", "simulate", "demo", "config", "setup", "conform", "mcp"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])

    assert left.value.code == 0
    assert f"smg-gateway {command}" in capsys.readouterr().out


@pytest.mark.full
def test_a_reader_that_leaves_is_no_traceback() -> None:
    reader = "import sys; sys.stdin.readline()"
    command = f"{sys.executable} -m smg_core config | {sys.executable} -c '{reader}'"

    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True)

    assert told.stderr == ""


@pytest.mark.full
def test_a_demo_that_serves_answers_over_a_websocket_and_at_the_admin_door_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "smg_core", "demo", "--serve", "--port", "0"]
    own = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)
    assert demo.stdout is not None
    shown = list(iter(demo.stdout.readline, "Serving until Ctrl-C; a line a request follows.\n"))
    page = next(line.split()[1] for line in shown if line.startswith("Page"))
    admin = next(line.split()[-1] for line in shown if line.startswith("To watch"))

    model = httpx.get(f"{page}v1/models").json()["data"][0]
    health = httpx.get(f"{admin}/admin/health").json()
    top = [sys.executable, "-m", "smg_core", "top", "--admin", admin, "--once", "--interval", "0.1"]
    watched = subprocess.run(top, capture_output=True, text=True, check=False)
    setup = [sys.executable, "-m", "smg_core", "setup", "codex", "--url", page]
    told = subprocess.run(setup, capture_output=True, text=True, check=True).stdout
    demo.send_signal(signal.SIGINT)
    _, log = demo.communicate(timeout=PATIENCE)

    assert (watched.returncode, "sim" in watched.stdout) == (0, True), watched.stderr
    assert any("It stands between programs and the engines" in line for line in shown)
    assert any("a toy without a model, that draws words" in line for line in shown)
    assert model["max_model_len"] == 200_000
    assert health["status"] == "ok"
    assert "supports_websockets = true" in told
    assert "path=/v1/models status=200" in log
    assert "Traceback" not in log
    assert demo.returncode in {0, 130}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_demo_of_tools_shows_a_function_a_search_of_files_and_code(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "smg_core", "demo", "--tools"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    for line in ("gave '10:00 to 16:00'", "found in notes.txt", "It is blue. [notes.txt]", "printed '3.5'"):
        assert line in shown.stdout


@pytest.mark.full
def test_a_demo_ends_by_itself_and_says_where_one_that_stays_is(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "smg_core", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert all(f"\n{name} " in ended.stdout for name in ("Page", "Every route", "OpenAI", "Claude Code", "Codex"))
    assert list(tmp_path.iterdir()) == []


def test_help_has_the_flags_that_people_use_in_sixty_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    short = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["serve", "--help", "routing"])
    section = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["serve", "--help-all"])
    whole = capsys.readouterr().out

    assert len(short.splitlines()) <= 60
    assert all(name in short for name in POLICIES)
    assert all(setting.flag in section for setting in describe() if setting.section == "routing")
    assert "--tls-cert" not in section
    assert all(f"  {setting.flag}" in whole for setting in describe())
    assert "--policy-for POLICY" in section
    assert "(default: no_worker, overloaded, failed, context)" in " ".join(section.split())
    assert main(["serve", "--help", "rooting"]) == 2
    assert "did you mean routing?" in capsys.readouterr().err


def test_the_name_of_a_model_in_a_hub_is_answered_with_what_a_tokenizer_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--worker", "grpc://a:1", "--tokenizer", "Qwen/Qwen3-8B"]) == 2

    assert "give the folder that `hf download Qwen/Qwen3-8B` prints" in capsys.readouterr().err
