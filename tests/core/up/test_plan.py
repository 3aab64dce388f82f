"""What a file of `up` may say, and what is refused, with the place and what was meant."""

import itertools
from typing import Any

import pytest

from smg_core.config import ConfigError
from smg_core.up.plan import UpPlan, up_plan_of


def planned(written: object, *, simulated: bool = False) -> UpPlan:
    ports = itertools.count(40000)
    return up_plan_of(written, free_port=lambda: next(ports), python="/usr/bin/python", simulated=simulated)


def engine(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "command": "vllm", "model": "Qwen/Qwen3-8B", **fields}


def test_an_engine_that_is_known_by_name_has_its_command_with_port_model_and_options() -> None:
    (found,) = planned({"engines": [engine(options=["--tensor-parallel-size", "2"])]}).engines

    assert found.words[:3] == ("/usr/bin/python", "-m", "vllm.entrypoints.grpc_server")
    assert found.words[-4:] == ("--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2")
    assert "40000" in found.words
    assert found.spec.url == "grpc://127.0.0.1:40000"


def test_any_command_is_words_or_a_line_as_a_shell_reads_it() -> None:
    engines = [engine(command="my-engine --at '{port} x' {\"a\": 1}"), engine("b", command=["my-engine", "{port}"])]

    first, second = planned({"engines": engines}).engines

    assert first.words == ("my-engine", "--at", "40000 x", "{a:", "1}")
    assert second.words == ("my-engine", "40001")


def test_an_engine_is_a_worker_with_what_the_file_says_of_it() -> None:
    written = engine(worker={"role": "prefill", "labels": {"gpu": "h100"}, "kv_events": "tcp://127.0.0.1:5557"})

    (found,) = planned({"engines": [written]}).engines

    assert (found.spec.name, found.spec.role, found.spec.kv_events) == ("a", "prefill", "tcp://127.0.0.1:5557")


def test_simulated_engines_take_the_place_of_all_and_keep_their_roles() -> None:
    written = engine(scheme="http", simulated=["--decode-rate", "54"], worker={"role": "decode", "dialect": "sglang"})

    (found,) = planned({"engines": [written]}, simulated=True).engines

    assert found.words[1:4] == ("-m", "smg_core", "simulate")
    assert found.words[-2:] == ("--decode-rate", "54")
    assert (found.spec.role, found.spec.dialect) == ("decode", "auto")


def test_engines_start_behind_those_that_they_wait_for() -> None:
    plan = planned({"engines": [engine("c", after=["b"]), engine("b", after=["a"]), engine("a"), engine("d")]})

    assert [[each.name for each in level] for level in plan.levels()] == [["a", "d"], ["b"], ["c"]]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([], "expected an object with engines and gateway"),
        ({}, "engines: expected a list of engines, at least one"),
        ({"engines": "vllm"}, "engines: expected a list of engines"),
        ({"engines": [engine(str(at)) for at in range(65)]}, "engines: 65, over 64"),
        ({"engins": [engine()]}, "engins: no such key; did you mean engines?"),
        ({"engines": [{"command": "vllm"}]}, r"engines\[0\]: Object missing required field `name`"),
        ({"engines": [engine(modle="x")]}, "Object contains unknown field `modle`; did you mean model?"),
        ({"engines": [engine(command="vllm", model="")]}, "model: say which one vllm is to serve"),
        ({"engines": [engine(command=[])]}, "command: it has no words"),
        ({"engines": [engine(command="a 'b")]}, "No closing quotation"),
        ({"engines": [engine("gateway")]}, "'gateway' cannot be the name of an engine"),
        ({"engines": [engine(), engine()]}, "engines: a is there twice"),
        ({"engines": [engine(after=["b"])]}, "a: after: there is no engine b"),
        ({"engines": [engine(after=["b"]), engine("b", after=["a"])]}, "a, b wait for each other"),
        ({"engines": [engine(port=7), engine("b", port=7)]}, "port 7 is there twice"),
        ({"engines": [engine(port=70000)]}, "Expected `int` <= 65535"),
        ({"engines": [engine(start_s=0)]}, "Expected `float` >= 0.1"),
        ({"engines": [engine(scheme="gopher")]}, "has no known scheme"),
        ({"engines": [engine(worker={"rolle": "x"})]}, "unknown field `rolle`"),
        ({"engines": [engine(worker={"url": "x"})]}, "worker: url: it is the engine's own"),
        ({"engines": [engine(worker={"api_key_file": "x"})]}, "name files of keys in the gateway's workers.file"),
        ({"engines": [engine()], "gateway": []}, None),
        ({"engines": [engine()], "gateway": [1]}, "gateway: expected sections of settings"),
        ({"engines": [engine()], "gateway": {"server": {"prot": 1}}}, "gateway: server.prot: no such setting"),
        ({"engines": [engine()], "gateway": {"workers": {"file": "w"}}}, "workers.file: the workers are the engines"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_place(written: object, words: str | None) -> None:
    if words is None:
        assert planned(written).sections == {}
        return
    with pytest.raises(ConfigError, match=words):
        planned(written)
