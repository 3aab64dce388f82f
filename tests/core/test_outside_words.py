"""Of a text from outside a log has only the words that faults are told with; sentences of our own stay as they are."""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.source import parsed

from smg_core.errors import EngineFailed, SmgError, StoreFailed
from smg_core.files.blobs import FilesFailed
from smg_core.observability.logs import configure
from smg_core.outside_words import Outside, in_log, known_words
from smg_core.outside_words.filtering import MOST_NUMBERS
from smg_core.outside_words.vocabulary import MEASURES, MEMORY_UNITS, UNITS, VOCABULARY

SRC = Path(__file__).parents[2] / "src" / "smg_core"
WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

TOLD = {
    "CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 79.15 GiB total capacity)": None,
    "torch.cuda.OutOfMemoryError: CUDA error: device-side assert": None,
    "max_model_len 4096 exceeded: 5000 tokens": None,
    "Connection refused (10.0.0.7:50051)": "Connection refused (…)",
    "failed on Anna Smith, 4 Elm Road": "failed on …",
    "the prompt 'Hello my dear' is too long": "the prompt '…' is too long",
    "token ids [1, 22, 333, 4444] are invalid": "token ids […] are invalid",
    "card 4111 1111 1111 1111 is 1234": "… is …",
    "input_ids: 15339\ninput_ids: 1917\ninput_ids: 22": "input_ids: … input_ids: … input_ids: …",
    "[{'token': 15339, 'logprob': -0.5}, {'token': 1917}]": "[{'token': …, 'logprob': -…}, {'token': …}]",
    "token 15339, token 1917": "token …, token …",
    "code 104 code 117": "code … code …",
    "ids=[15339, 1917]": "ids=[…]",
    "value: 4111 value: 1111": "value: … value: …",
    "password 1234567": "password …",
    "number 555 1234": "number …",
    "length 4111 length 1111 length 1111": "length 4111 length … length …",
    "status 503, max_tokens=20, 3 requests, 30 seconds": None,
    "number 123456789 tokens": "number … tokens",
    "secret.token": "…",
    "gateway.token": "gateway.token",
    "größe des token": "… token",
    "": "",
    "漢字": "…",
    "error " + "#" * 40 + " failed": "error failed",
}


@pytest.mark.parametrize("text", TOLD)
def test_the_words_of_faults_are_kept_and_others_are_one_mark(text: str) -> None:
    wanted = TOLD[text]

    assert known_words(text) == (text if wanted is None else wanted)


def words_of(text: str) -> Iterator[str]:
    """The words of a text, those in an identifier apart; a word that is known as it is written is one."""
    for found in re.findall(r"\w+(?:'\w+)?", text):
        for part in found.split("_"):
            if part and not part.isdigit():
                yield from [part] if part.lower() in VOCABULARY else CAMEL.findall(part) or [part]


of_faults = st.sampled_from(sorted(VOCABULARY))
mixed = st.lists(of_faults | st.text(max_size=12) | st.integers(-(10**12), 10**12).map(str), max_size=20).map(" ".join)


@given(mixed | st.text())
@example("a1b2c3 x-1234567.5 " * 3)
def test_no_word_outside_the_vocabulary_survives(text: str) -> None:
    kept = known_words(text)

    assert [word for word in words_of(kept) if word.lower() not in VOCABULARY] == []
    assert "……" not in kept
    assert kept.isprintable()


counted = st.sampled_from(sorted(MEASURES | UNITS | MEMORY_UNITS | VOCABULARY))
numbered = st.lists(counted | st.integers(0, 10**9).map(str) | st.sampled_from([",", ": ", "_"]), max_size=60).map(
    " ".join
)


@given(numbered)
def test_few_numbers_survive_and_each_beside_what_it_measures(text: str) -> None:
    kept = known_words(text)

    assert not re.search(r"\d{8}", kept)
    assert len(re.findall(r"\d+(?:\.\d+)?", kept)) <= MOST_NUMBERS
    for found in re.finditer(r"(?<!\w)\d+(?:\.\d+)?(?!\w)", kept):
        before, behind = kept[: found.start()], kept[found.end() :]
        measure = re.search(r"(\w+)\W*$", before)
        unit = re.match(r"\W*(\w+)", behind)
        assert (measure is not None and measure[1] in MEASURES) or (
            unit is not None and unit[1] in UNITS | MEMORY_UNITS
        )


@given(st.text(), st.text(min_size=1))
def test_a_sentence_of_ours_survives_around_what_was_said(ours: str, outside_text: str) -> None:
    told = in_log(f"worker one is away, code 12345678: {ours}: {outside_text}", outside_text)

    assert told == f"worker one is away, code 12345678: {ours}: {known_words(outside_text)}"
    assert in_log(ours, "") == ours


def test_what_is_named_and_not_found_leaves_nothing_unlooked_at() -> None:
    assert in_log("failed on Anna", "Anna Smith") == "failed on …"


def test_a_long_text_is_cut() -> None:
    assert len(known_words("error " * 100_000)) <= 1001


def test_an_error_as_text_has_known_words_alone_and_its_detail_all() -> None:
    error = EngineFailed("It failed.", detail="INTERNAL: no Anna", outside_text="no Anna")

    assert str(error) == "It failed. (INTERNAL: no …)"
    assert error.cause == "INTERNAL: no …"
    assert error.detail == "INTERNAL: no Anna"
    assert str(StoreFailed("failed", "Redis: Anna", outside_text="Anna")).endswith("(Redis: …)")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.usefixtures("logging_as_before")
def test_a_log_has_the_words_in_whole_where_it_is_configured_so(
    form: str, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info", form, words=whole)  # type: ignore[arg-type]
    log = logging.getLogger("smg.test")
    log.warning("worker %s: %s", "one", EngineFailed("It failed.", detail="no Anna", outside_text="no Anna"))
    log.warning("the collector: %s", Outside("no Anna"))
    log.warning("100 % of it")
    told = capsys.readouterr().err

    assert told.count("no Anna") == (2 if whole else 0)
    assert told.count("no …") == (0 if whole else 2)
    assert "worker one" in told
    assert "100 % of it" in told


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_the_vocabulary_is_of_plain_lower_case_words() -> None:
    assert [word for word in VOCABULARY if not re.fullmatch(r"[a-z][a-z0-9]*(?:'[a-z]+)?", word)] == []
    assert len(VOCABULARY) < 1500


# --------------------------------------------------------------------------------------------------- every error of the house

OURS: dict[str, tuple[str, ...]] = {
    "a folder of the settings, or a name and a reason that have nobody's words": (
        "containers/interpreter/running.py: folder",
        *("guardrails/asking.py: rail.name", "guardrails/asking.py: fault.reason"),
    ),
    "an address of the settings": (
        *("engines/grpc/grpcio.py: self.target", "engines/grpc/grpcio.py: str(self.target)"),
        *("engines/grpc/grpcio.py: str(self._transport.target)", "engines/grpc/h2/transport.py: self._target"),
        *("engines/grpc/h2/transport.py: self.target", "engines/grpc/h2/transport.py: str(self.target)"),
        *("engines/grpc/h2/transport.py: target", "engines/http/client.py: self._client.address"),
        *("engines/http/client.py: self.address", "engines/openai/call.py: self._address"),
        *("engines/openai/engine.py: self.address", "engines/openai/engine.py: self.address.as_grpc"),
        *("engines/connections/call_queue.py: self._room", "engines/realtime/connection.py: address"),
        "engines/realtime/connection.py: self._name",
    ),
    "the system's words about a connection, or about a file of the settings": (
        *(
            "engines/grpc/grpcio.py: error",
            "engines/grpc/h2/transport.py: error",
            "engines/grpc/h2/transport.py: reason",
        ),
        *("engines/http/client.py: detail", "engines/http/client.py: error", "admin/auditing.py: str(error)"),
        *("models/fetching.py: ca", "models/fetching.py: error", "models/loading.py: str(error)"),
        *(
            "models/media_service.py: error",
            "models/media_service.py: file",
            "files/folder.py: error",
            "files/folder.py: what",
            "history/sql/sqlite_file.py: name",
            "history/deferred.py: error",
            "engines/realtime/connection.py: error",
            "engines/realtime/connection.py: type(error).__name__",
            "response_cache/answer_store.py: type(error).__name__",
            "apis/realtime/rtc.py: type(error).__name__",
        ),
    ),
    "a number": (
        *("engines/grpc/grpcio.py: connect_timeout", "engines/grpc/grpcio.py: len(messages)"),
        *("engines/grpc/h2/connection.py: code", "engines/grpc/h2/headers.py: max_bytes"),
        "engines/grpc/h2/transport.py: len(self._messages)",
        *("engines/http/client.py: status", "engines/openai/answers.py: status", "engines/pooling.py: dimensions"),
        "engines/vendors/refusals.py: refusal.status",
        *("engines/pooling.py: len(found)", "engines/kv_zmq/messages.py: len(events)"),
        *("engines/status.py: status", "history/memory/room.py: self._most_bytes", "history/redis/store.py: _TRIES"),
        *(
            "pipeline/calls/silence.py: self._between",
            "pipeline/calls/silence.py: self._first",
            "models/onboarding.py: facts.ranks",
        ),
        "models/onboarding.py: rank",
        "engines/realtime/live_socket.py: self._seconds",
        "channel/frames.py: int.from_bytes(self._rest[at:at + LENGTH_BYTES], 'big')",
    ),
    "the name of a worker, model, adapter, plugin, server, key or revision, which the operator or the engine has given": (
        "apis/realtime/peers.py: peer.worker.name",
        "engines/openai/answers.py: ', '.join((model.id for model in models[:_MAX_NAMES]))",
        *(
            "engines/openai/answers.py: wanted",
            "pipeline/pairs/pairing.py: adapter",
            "pipeline/pairs/pairing.py: chosen.worker.name",
        ),
        *("pipeline/pooled/gathering.py: worker.name", "pipeline/calls/streaming.py: worker.name"),
        *("models/onboarding.py: each.name", "models/onboarding.py: info.model", "models/onboarding.py: name"),
        *("models/onboarding.py: worker.name", "workers/worker.py: self.name", "middleware/chain.py: entry.name"),
        *("fleet/adapter_loading.py: worker.name", "fleet/adapter_loading.py: model.adapter"),
        "fleet/sleeping.py: worker.name",
        *(
            "credentials/renewal/renewed.py: self.name",
            "middleware/storing.py: link.entry.name",
            "plugins/asgi_exchange.py: checkpoint.name",
        ),
        *("tools/hosted.py: server.label", "history/sealing.py: name.decode(errors='replace')"),
        *("files/place.py: name", "history/sealing.py: place", "history/sql/migrate.py: current"),
        "history/sql/migrate.py: MigrationContext.configure(connection, opts=self._options()).get_current_revision()",
    ),
    "a word of a closed list of ours": (
        *(
            "auth/tokens.py: reason",
            "engines/status.py: name",
            "engines/status.py: label",
            "pipeline/pairs/legs.py: each.finish",
            "pipeline/pairs/legs.py: end",
        ),
        *(
            "models/onboarding.py: facts.dialect",
            "models/onboarding.py: role",
            "models/onboarding.py: role_of(facts.kv)",
        ),
        *("workers/worker.py: self.state", "engines/openai/events.py: how", "engines/grpc/h2/stream.py: what"),
        *("history/sql/failures.py: what", "history/sql/group_commit.py: why"),
        *("history/sqlite/failures.py: what", "history/sqlite/writer.py: why"),
        *("engines/vendors/bedrock/event_stream.py: why", "engines/realtime/connection.py: how"),
    ),
    "a sentence of ours that has known words alone already": (
        *("auth/tokens.py: detail", "engines/http/answer.py: detail", "middleware/chain.py: fault.reason"),
        *("middleware/storing.py: fault.reason", "plugins/asgi_exchange.py: fault.reason"),
        *("pipeline/pooled/gathering.py: worker.reason", "pipeline/calls/streaming.py: worker.reason"),
        *("engines/kinds/opening.py: str(failure)", "channel/frames.py: error"),
    ),
    "the name of a class": (
        *("engines/kv_zmq/messages.py: type(error).__name__", "tokenizer/chat_template.py: type(fault).__name__"),
        "engines/vendors/listing.py: type(error).__name__",
        "engines/kv_zmq/subscriber.py: type(next(iter(_leaves(errors)))).__name__",
    ),
    "the name of a header, or a path, of the gateway's own request": (
        *("engines/grpc/h2/headers.py: key", "engines/grpc/h2/headers.py: key[:64]", "engines/http/request.py: name"),
        *("engines/http/request.py: name[:64]", "engines/http/request.py: path[:64]"),
    ),
}
"""What stands in the detail of an error without being named as text from outside, by whose words it has."""


def interpolated(node: ast.expr, values: dict[str, list[ast.expr]]) -> Iterator[str]:
    """What is put into a text, as it is written; a variable is what the function gives it."""
    if isinstance(node, ast.Name) and node.id in values:
        for value in values[node.id]:
            yield from interpolated(value, {})
    elif isinstance(node, ast.JoinedStr):
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                yield from interpolated(each.value, values)
    elif isinstance(node, ast.IfExp):
        yield from interpolated(node.body, values)
        yield from interpolated(node.orelse, values)
    elif isinstance(node, ast.BoolOp):
        for each in node.values:
            yield from interpolated(each, values)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "rstrip":
        yield from interpolated(node.func.value, values)
    elif not isinstance(node, ast.Constant):
        yield ast.unparse(node)


def details(source: str) -> Iterator[str]:
    """Each thing that stands in the detail of an error and is not named as text from outside."""
    for function in ast.walk(parsed(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            values: dict[str, list[ast.expr]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    values.setdefault(node.targets[0].id, []).append(node.value)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in KINDS:
                    yield from not_said(node, values)


def not_said(call: ast.Call, values: dict[str, list[ast.expr]]) -> Iterator[str]:
    named = {each.arg: each.value for each in call.keywords}
    told = [named["detail"]] if "detail" in named else []
    if ast.unparse(call.func) in (StoreFailed.__name__, FilesFailed.__name__):
        told += call.args[1:2]
    outside_text = (
        set(interpolated(named["outside_text"], values)) | {ast.unparse(named["outside_text"])}
        if "outside_text" in named
        else set()
    )
    for each in told:
        for found in interpolated(each, values):
            if not any(covers(one, found) for one in outside_text):
                yield found


def covers(outside_text: str, found: str) -> bool:
    """Whether the `outside_text` is what was found: itself, as text, on a line of its own, or as an error's own account."""
    base = outside_text.removesuffix(".outside_text")
    return (
        outside_text in (found, f"str({found})")
        or found in (f"str({outside_text})", f"_with({outside_text})")
        or (base != outside_text and found.partition(".")[0] == base)
    )


def _all(kind: type[SmgError]) -> Iterator[type[SmgError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _all(each)


KINDS = {each.__name__ for each in _all(SmgError)} | {"kind"}


@pytest.mark.full
def test_whatever_an_error_repeats_from_outside_is_named_as_said() -> None:
    found = {f"{file.relative_to(SRC)}: {each}" for file in SRC.rglob("*.py") for each in details(file.read_text())}
    known = [each for group in OURS.values() for each in group]

    assert sorted(found - set(known)) == []  # name it in `outside_text`, or say above whose words it has
    assert sorted(set(known) - found) == []
    assert len(known) == len(set(known))


PLANTED = {
    "raise EngineFailed('m', detail=f'INTERNAL: {text}')": ["text"],
    "raise EngineFailed('m', detail=f'INTERNAL: {text}', outside_text=text)": [],
    "raise EngineFailed('m', detail=text or 'none')": ["text"],
    "detail = f'{text}'; raise EngineFailed('m', detail=detail)": ["text"],
    "raise EngineFailed('m', detail=str(error), outside_text=str(error))": [],
    "raise StoreFailed('failed', f'Redis: {error}')": ["error"],
    "raise EngineStalled('m', detail=late.detail, outside_text=late.outside_text)": [],
    "raise EngineStalled('m', detail=late.detail)": ["late.detail"],
}


@pytest.mark.parametrize("line", PLANTED)
def test_the_walk_finds_what_is_not_named(line: str) -> None:
    assert list(details(f"def f(text, error, late):\n    {line}")) == PLANTED[line]


@pytest.mark.full
def test_no_log_line_is_given_what_was_said_as_it_was_said() -> None:
    found = []
    for file in SRC.rglob("*.py"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_log = ast.unparse(node.func.value).endswith("log") and node.func.attr in LEVELS
                if is_log and any(
                    re.search(r"\.(detail|whole|outside_text)\b", ast.unparse(each)) for each in node.args
                ):
                    found.append(f"{file.relative_to(SRC)}:{node.lineno}")
    assert found == []


LEVELS = ("debug", "info", "warning", "error", "critical", "exception")


@pytest.mark.full
def test_a_moment_that_tells_why_names_what_was_said() -> None:
    made = [
        (file.name, {each.arg for each in node.keywords})
        for file in SRC.rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("AttemptEnded", "RequestFinished")
    ]

    assert len(made) >= 4
    assert [name for name, given in made if "detail" in given and "outside_text" not in given] == []
