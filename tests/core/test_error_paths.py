"""Paths of errors: below the protocols they are in our words, and each API turns them into its own.

The first part reads every `param` that a module below the protocols gives to an error, as it is written in the source, and
follows it through the records of `request.py`. The second follows what Chat Completions makes of it through its wire types.
"""

import ast
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any

import attrs
import msgspec
import pytest
from tests.source import parsed

from smg_core.apis.chat.decode import ChatRequest, decode_chat
from smg_core.apis.chat.types import ChatBody
from smg_core.apis.completions.decode import decode_completion
from smg_core.apis.completions.types import CompletionBody
from smg_core.apis.pooling.classify import ClassifyBody, decode_classify
from smg_core.apis.pooling.cohere_embed import CohereEmbedBody, decode_cohere_embed
from smg_core.apis.pooling.embeddings import EmbeddingsBody, decode_embeddings
from smg_core.apis.pooling.gemini_embed import BatchEmbedContentsBody, decode_batch_embed
from smg_core.apis.pooling.rerank import RerankBody, decode_rerank
from smg_core.apis.pooling.score import ScoreBody, decode_score
from smg_core.apis.sglang.decode import decode_sglang
from smg_core.apis.sglang.types import SglangBody
from smg_core.errors import InvalidRequest, PromptTooLong
from smg_core.pipeline.prompt.media import media_of
from smg_core.request import GenerationRequest, Image, MediaSource, Message, PoolRequest, Sampling, Text, ToolResult
from smg_core.wire.base import Incoming
from smg_core.wire.errors import anthropic_error, gemini_error, openai_error

SRC = Path(__file__).parents[2] / "src" / "smg_core"
BELOW = (
    "errors.py",
    "pipeline/**/*.py",
    "routing/**/*.py",
    "models/media_service.py",
    "tokenizer/**/*.py",
    "workers/**/*.py",
)
BELOW += (
    "engines/*.py",
    "engines/codecs/*.py",
    "engines/token_ids/*.py",
    "engines/grpc/*.py",
    "engines/grpc/h2/*.py",
    "engines/codecs/neutral/*.py",
    "engines/codecs/vllm/*.py",
    "engines/codecs/mlx/*.py",
    "engines/codecs/sglang/*.py",
    "engines/codecs/trtllm/*.py",
    "engines/codecs/tokenspeed/*.py",
)  # `openai` builds its paths from tables
ANY = "*"
"""Stands in a path for what is only known at run time: the name of a field or of an entry, not an index."""


@attrs.frozen
class Written:
    """A `param` as it stands in the source: its path, None for an expression that passes one on."""

    place: str
    path: str | None


def written_params(file: Path, positions: Mapping[str, int]) -> Iterator[Written]:
    """Every value given for a parameter called `param`, by name or, to a function in `positions`, by position."""
    tree = parsed(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "param"]
            at = positions.get(ast.unparse(node.func).rpartition(".")[2])
            given += node.args[at : at + 1] if at is not None else []
            for value in given:
                for one in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                    yield Written(f"{file.name}:{node.lineno} {ast.unparse(one)}", _path(one))
        elif isinstance(node, ast.FunctionDef):
            defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            for argument, value in defaults:
                if argument.arg == "param" and isinstance(value, ast.Constant) and value.value is not None:
                    yield Written(f"{file.name}:{node.lineno} {value.value}", _path(value))


def functions_that_take_it(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            if "param" in names:
                yield node.name, names.index("param")


def _path(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if not isinstance(value, ast.JoinedStr):
        return None
    text = ""
    for part in value.values:
        text += str(part.value) if isinstance(part, ast.Constant) else "0" if text.endswith("[") else ANY
    return text


def steps(path: str) -> list[str | int]:
    found: list[str | int] = []
    for piece in path.split("."):
        name, *indexes = piece.split("[")
        found += [name, *(int(index.rstrip("]")) for index in indexes)]
    return found


def leads_to(kind: Any, path: Sequence[str | int]) -> bool:
    """Whether the steps of `path` lead from a value of type `kind` to something."""
    if not path:
        return True
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return leads_to(arguments[0], path)
    if origin in (typing.Union, UnionType):
        return any(leads_to(each, path) for each in arguments)
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        return origin in (tuple, list, Sequence) and leads_to(arguments[0], rest)
    if origin in (dict, Mapping):
        return leads_to(arguments[1], rest)
    if isinstance(kind, type) and (attrs.has(kind) or issubclass(kind, msgspec.Struct)):
        fields = typing.get_type_hints(kind, include_extras=True)
        if not attrs.has(kind):
            names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
            fields = {names.get(name, name): field for name, field in fields.items()}
        tag = getattr(kind, "__struct_config__", None)
        if tag is not None and tag.tag_field is not None:
            fields[tag.tag_field] = str
        if step == ANY:
            return not rest
        return step in fields and leads_to(fields[step], rest)
    return kind is Any


FILES = [file for pattern in BELOW for file in sorted(SRC.glob(pattern)) if "param" in file.read_text()]
POOLED = [file for file in FILES if file.parent.name == "pooled"]
"""Modules whose paths are into `PoolRequest`."""
FILES = [file for file in FILES if file not in POOLED]
POSITIONS = dict(found for file in FILES for found in functions_that_take_it(file))
WRITTEN = [each for file in FILES for each in written_params(file, POSITIONS)]
PATHS = sorted({each.path for each in WRITTEN if each.path})


POOL_PATHS = sorted({each.path for file in POOLED for each in written_params(file, POSITIONS) if each.path is not None})
POOL_PATHS += ["inputs[1]", "truncate"]  # set where a call fails; what a server of OpenAI's API has no word for
POOL_BODIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "embeddings": (decode_embeddings, EmbeddingsBody, {"input": ["a", "b"]}),
    "one input": (decode_embeddings, EmbeddingsBody, {"input": "a"}),
    "embed": (decode_cohere_embed, CohereEmbedBody, {"texts": ["a", "b"], "input_type": "clustering"}),
    "batch": (decode_batch_embed, BatchEmbedContentsBody, {"requests": [{"content": {"parts": [{"text": "a"}]}}] * 2}),
    "rerank": (decode_rerank, RerankBody, {"query": "a", "documents": ["b"]}),
    "score": (decode_score, ScoreBody, {"text_1": "a", "text_2": ["b"]}),
    "next tokens": (decode_score, ScoreBody, {"query": "a", "items": ["b", "c"], "label_token_ids": [1]}),
    "classify": (decode_classify, ClassifyBody, {"input": ["a", "b"]}),
}
NO_FIELD = {("batch", "truncate"), ("batch", "activation"), ("embed", "activation")}
NO_FIELD |= {(name, "dimensions") for name in ("rerank", "score", "classify", "next tokens")}
"""What an API has no field for, so that nothing of it can be refused for that."""


@pytest.mark.parametrize("path", POOL_PATHS)
def test_every_path_of_pooled_work_is_one_into_its_request(path: str) -> None:
    assert leads_to(PoolRequest, steps(path))


@pytest.mark.parametrize("name", POOL_BODIES)
@pytest.mark.parametrize("path", POOL_PATHS)
def test_apis_of_pooled_work_have_a_field_for_each_of_them(path: str, name: str) -> None:
    if (name, path) in NO_FIELD or path == "model":
        return
    decode, body, fields = POOL_BODIES[name]
    values = {"model": "m", **fields} if name != "batch" else fields
    decoded = decode(Incoming(msgspec.json.encode(values), request_id="r", path_values={"model": "m"}))
    names = {each.name: each.encode_name for each in msgspec.structs.fields(body)}
    first, *rest = steps(decoded.locate(path))
    own = next(name for name, encoded in names.items() if encoded == first)
    assert leads_to(body, [own, *rest])


def chat(**fields: Any) -> ChatRequest:
    """A request with all that the paths above speak of."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    body = {"model": "m", "messages": messages, "tools": tools, **fields}
    return decode_chat(Incoming(msgspec.json.encode(body), request_id="r"))


def test_the_walk_sees_what_there_is() -> None:
    assert {"messages", "sampling.logit_bias", "tools[0].parameters", "template_arguments.*"} <= set(PATHS)
    assert len(WRITTEN) > 25


@pytest.mark.parametrize("path", PATHS)
def test_every_path_written_below_the_protocols_is_one_into_the_request(path: str) -> None:
    assert leads_to(GenerationRequest, steps(path)), [each.place for each in WRITTEN if each.path == path]


def test_what_is_no_literal_only_passes_on_a_path_that_was_made_elsewhere() -> None:
    passed_on = {each.place.partition(" ")[2] for each in WRITTEN if each.path is None}

    assert passed_on <= {
        "_placed(found, request, hosted)",
        "param",
        "item.param",
        "odd.param",
        "items[self._max_items].param",
        "at",  # of a part whose file is of another kind, in the request's own words
        "fault['param']",  # of a medium, whose decoder keeps it beside the medium
    }


def test_the_paths_of_media_lead_to_them() -> None:
    picture = Image(MediaSource(url="data:,"))
    mixed = Message("user", (Text("a"), picture, ToolResult("c", (Text("b"), picture))))
    found = [item.param for item in media_of([Message("user", (Text("x"),)), mixed])]

    assert found == ["messages[1].parts[2].content[1]", "messages[1].parts[1]"]
    assert all(leads_to(GenerationRequest, steps(path)) for path in found)


OF_TRANSCRIPTIONS = frozenset({"transcription.format"})
OF_COMPLETIONS = frozenset({"sampling.echo", "sampling.suffix", "sampling.truncate_prompt"})
"""What the older API alone has a field for."""
OF_CUSTOM_TOOLS = frozenset({"tools[0].grammar"})
"""What functions have no field for; the table below has the others' place."""
OF_MESSAGES = frozenset({"context_edits[0]", "compact.over_tokens"})
"""What Messages has a field for, and Chat has none."""


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in PATHS
        if not path.startswith("headers.")
        and path not in OF_CUSTOM_TOOLS | OF_COMPLETIONS | OF_MESSAGES | OF_TRANSCRIPTIONS
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_chat_completions_has_a_field_for_each_of_them(path: str, legacy: bool) -> None:
    asked = chat(tools=None, functions=[{"name": "f", "parameters": {}}]) if legacy else chat()
    field = asked.locate(path)

    assert leads_to(ChatBody, steps(field)), field


OF_GENERATE = frozenset({"sampling.token_ids"})
"""What no field asks for: `/generate` always tells the ids of its tokens."""
SAMPLING = sorted({f"sampling.{name}" for name in Sampling.__struct_fields__} - OF_GENERATE)


@pytest.mark.parametrize("path", [path for path in SAMPLING if path not in OF_COMPLETIONS])
def test_chat_completions_has_a_field_for_each_setting_of_sampling(path: str) -> None:
    assert leads_to(ChatBody, steps(chat().locate(path)))


ELSEWHERE = (
    *("messages[", "transcription.", "context_edits", "template", "tools", "tool_choice", "documents"),
    *("reasoning", "headers.", "compact."),
)
"""What no Completions request has."""


@pytest.mark.sampled(keep=60)
@pytest.mark.parametrize("path", [path for path in (*PATHS, *SAMPLING) if not path.startswith(ELSEWHERE)])
@pytest.mark.parametrize("prompt", ["a", ["a", "b"]])
def test_completions_has_a_field_for_each_of_its_own(path: str, prompt: Any) -> None:
    body = msgspec.json.encode({"model": "m", "prompt": prompt})
    asked = decode_completion(Incoming(body, request_id="r"))

    assert leads_to(CompletionBody, steps(asked.locate(path))), asked.locate(path)
    assert leads_to(CompletionBody, steps(asked.locate(f"requests[1].{path}")))


NOT_OF_GENERATE = frozenset({"sampling.suffix", "sampling.truncate_prompt", "sampling.echo", "sampling.token_ids"})
"""What `/generate` has no field for. It always tells ids; an engine that tells none takes no prompt as it stands, which is
refused first."""


@pytest.mark.parametrize(
    "path", [path for path in (*PATHS, *SAMPLING) if not path.startswith(ELSEWHERE) and path not in NOT_OF_GENERATE]
)
@pytest.mark.parametrize("prompt", [{"text": "a"}, {"input_ids": [[1], [2]]}])
def test_generate_has_a_field_for_each_of_its_own(path: str, prompt: Any) -> None:
    asked = {**prompt, "sampling_params": {"json_schema": "{}"}}
    request = decode_sglang(Incoming(msgspec.json.encode(asked), request_id="r"), lambda name: "m")

    assert leads_to(SglangBody, steps(request.locate(path))), request.locate(path)
    assert leads_to(SglangBody, steps(request.locate(f"requests[1].{path}")))


PICTURE = {"type": "image_url", "image_url": {"url": "data:,"}}
TURNS = [
    {"role": "user", "content": "one string"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, PICTURE]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, PICTURE],
        "reasoning_content": "hm",
        "opaque_blocks": [{"type": "x", "data": "1"}, {"type": "x", "data": "2"}],
        "tool_calls": [{"id": i, "function": {"name": "f", "arguments": "{}"}} for i in ("c", "d")],
    },
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}, PICTURE]},
    {"role": "tool", "tool_call_id": "d", "content": "one string"},
]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("messages", "messages"),
        ("messages[0].parts", "messages[0].content"),
        ("messages[0].parts[0]", "messages[0].content"),
        ("messages[1].parts[1]", "messages[1].content[1]"),
        ("messages[1].parts[1].source", "messages[1].content[1]"),
        ("messages[2].parts[0]", "messages[2].reasoning_content"),
        ("messages[2].parts[2]", "messages[2].opaque_blocks[1]"),
        ("messages[2].parts[4]", "messages[2].content[1]"),
        ("messages[2].parts[6]", "messages[2].tool_calls[1]"),
        ("messages[2].role", "messages[2].role"),
        ("messages[3].parts[0].content[1]", "messages[3].content[1]"),
        ("messages[3].parts[0]", "messages[3].content"),
        ("messages[4].parts[0].content[0]", "messages[4].content"),
        ("sampling.logprobs", "top_logprobs"),
        ("sampling.stop[2]", "stop[2]"),
        ("sampling.max_tokens", "max_tokens"),
        ("tools[0].parameters", "tools[0].function.parameters"),
        ("tools[1].grammar", "tools[1].custom.format.grammar.definition"),
        ("tools[1].kind", "tools[1].type"),
        ("tools[1]", "tools[1]"),
        ("tool_choice.names", "tool_choice"),
        ("response_format", "response_format"),
        ("response_format.schema", "response_format.json_schema.schema"),
        ("response_format.pattern", "response_format"),
        ("template", "chat_template"),
        ("template_arguments.a.b", "chat_template_kwargs.a.b"),
        ("headers.x-smg-parser", "x-smg-parser"),
        ("model", "model"),
        ("cache_salt", "cache_salt"),
    ],
)
def test_chat_completions_says_what_the_client_wrote(path: str, field: str) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "g"}}]

    assert chat(messages=TURNS, tools=tools).locate(path) == field


def test_what_has_two_names_has_the_one_that_was_sent() -> None:
    assert chat(max_completion_tokens=5).locate("sampling.max_tokens") == "max_completion_tokens"
    assert chat(max_tokens=5).locate("sampling.max_tokens") == "max_tokens"
    legacy = chat(tools=None, functions=[{"name": "f"}])
    assert [legacy.locate(path) for path in ("tools", "tools[0].parameters", "tool_choice")] == [
        "functions",
        "functions[0].parameters",
        "function_call",
    ]


def test_an_envelope_has_the_apis_words_in_the_message_too() -> None:
    asked = chat(messages=TURNS)
    error = InvalidRequest("Invalid 'messages[1].parts[1]': it is no picture.", param="messages[1].parts[1]")
    said = "Invalid 'messages[1].content[1]': it is no picture."

    openai = msgspec.json.decode(openai_error(error, "", asked.locate))["error"]
    anthropic = msgspec.json.decode(anthropic_error(error, "", asked.locate))["error"]
    gemini = msgspec.json.decode(gemini_error(error, "", asked.locate))["error"]

    assert (openai["param"], openai["message"]) == ("messages[1].content[1]", said)
    assert anthropic["message"] == said
    assert gemini["details"][0]["fieldViolations"][0] == {"field": "messages[1].content[1]", "description": said}


def test_a_path_that_the_message_does_not_quote_changes_nothing_in_it() -> None:
    error = PromptTooLong(90, 20, 100)
    found = msgspec.json.decode(openai_error(error, "", chat().locate))["error"]

    assert (found["param"], found["message"]) == ("messages", error.message)
