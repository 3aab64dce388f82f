"""What the embedded engine says, and what it refuses, without a socket."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.base import EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import EngineCore, SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.engine.refusal import Refused
from smg_simulator.engine.vocabulary import Vocabulary

WORDS = Vocabulary(
    *(Path(MODEL_FOLDER, name).read_text() for name in ("tokenizer.json", "config.json", "generation_config.json"))
)
EOS = WORDS.eos_ids[0]

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def engine(**config) -> EngineCore:
    return EngineCore(SimulatorConfig(**config), WORDS)


def ask(prompt: str = "Hello there", constraint: Constraint | None = None, **sampling) -> EngineRequest:
    return EngineRequest("r", TokenIds(WORDS.encode(prompt)), Sampling(**sampling), constraint=constraint)


def chat(question: str, *, tools: str = "", thinking: bool = False, answer: str = "") -> str:
    system = f"<|im_start|>system\nBe brief.\n\n# Tools\n\n<tools>\n{tools}\n</tools>\n<|im_end|>\n" if tools else ""
    tail = f"<|im_start|>user\n<tool_response>\n{answer}\n</tool_response><|im_end|>\n" if answer else ""
    start = "<|im_start|>assistant\n" + ("<think>\n" if thinking else "")
    return f"{system}<|im_start|>user\n{question}<|im_end|>\n{tail}{start}"


def say(model: EngineCore, request: EngineRequest) -> str:
    return WORDS.decode(model.plan(request).choices[0].ids)


# ---------------------------------------------------------------------------------------------------------- the text


def test_the_same_prompt_and_seed_give_the_same_text() -> None:
    assert say(engine(), ask(seed=7)) == say(engine(), ask(seed=7))
    assert say(engine(), ask(seed=7)) != say(engine(), ask(seed=8))
    assert say(engine(), ask()) != say(engine(), ask("Something else"))
    assert say(engine(seed=1), ask()) != say(engine(seed=2), ask())


def test_free_text_is_sentences_and_an_end_token() -> None:
    choice = engine().plan(ask()).choices[0]
    text = WORDS.decode(choice.ids[:-1])

    assert choice.finish == "stop"
    assert choice.ids[-1] == EOS
    assert text[0].isupper()
    assert text.endswith(".")
    assert WORDS.encode(text) == tuple(choice.ids[:-1])


@given(st.integers(1, 200), st.integers(0, 100))
def test_the_limit_on_tokens_is_kept_exactly(limit: int, seed: int) -> None:
    choice = engine().plan(ask(max_tokens=limit, seed=seed)).choices[0]

    assert len(choice.ids) <= limit
    assert (choice.finish == "length") == (EOS not in choice.ids)
    assert choice.finish == "stop" or len(choice.ids) == limit


def test_a_reply_can_be_made_longer() -> None:
    assert len(engine(reply_tokens=300).plan(ask()).choices[0].ids) >= 300
    ignoring = engine().plan(ask(ignore_eos=True, max_tokens=500)).choices[0]
    assert (len(ignoring.ids), ignoring.finish, EOS in ignoring.ids) == (500, "length", False)
    assert len(engine().plan(ask(min_tokens=400, max_tokens=1000)).choices[0].ids) >= 400


def test_the_output_ends_where_the_context_does() -> None:
    choice = engine(context_length=20).plan(ask(ignore_eos=True, max_tokens=500)).choices[0]

    assert len(choice.ids) == 20 - len(WORDS.encode("Hello there"))
    assert choice.finish == "length"


def test_choices_differ() -> None:
    choices = engine().plan(ask(n=3, temperature=1.0)).choices

    assert len({tuple(choice.ids) for choice in choices}) == 3


# ---------------------------------------------------------------------------------------------------------- the ends


def test_a_stop_string_ends_the_text_with_the_token_that_completes_it() -> None:
    model = engine(rules=(Rule((), Reply("one two three four")),))

    choice = model.plan(ask(stop=("four", "wo th"))).choices[0]

    assert (choice.finish, choice.matched) == ("stop", "wo th")
    assert "wo th" in WORDS.decode(choice.ids)
    assert "wo th" not in WORDS.decode(choice.ids[:-1])


@given(st.integers(0, 60), st.integers(1, 6), st.integers(0, 20))
def test_any_piece_of_the_text_stops_it_where_it_is_first_complete(at: int, length: int, least: int) -> None:
    ids = engine().plan(ask()).choices[0].ids
    texts = [WORDS.decode(ids[:count]) for count in range(len(ids) + 1)]
    stop = texts[-1][at : at + length]
    expected = next(
        (
            count
            for count in range(least + 1, len(texts))
            if stop in texts[count][max(0, len(texts[least]) - len(stop) + 1) :]
        ),
        None,
    )

    cut = engine().plan(ask(stop=(stop,), min_tokens=least)).choices[0]

    assert cut.matched == (None if expected is None else stop)
    assert len(cut.ids) == (len(ids) if expected is None else expected)


@pytest.mark.parametrize("stop", ["🦉", "né🦉", "ß"])
def test_a_stop_string_ends_at_the_last_byte_of_its_last_character(stop: str) -> None:
    model = engine(rules=(Rule((), Reply("a né🦉 ß b")),))

    choice = model.plan(ask(stop=(stop,))).choices[0]

    assert stop in WORDS.decode(choice.ids)
    assert stop not in WORDS.decode(choice.ids[:-1])


def test_a_stop_string_after_the_limit_does_not_count() -> None:
    model = engine(rules=(Rule((), Reply("one two three four")),))

    choice = model.plan(ask(stop=("four",), max_tokens=2)).choices[0]

    assert (choice.finish, choice.matched, len(choice.ids)) == ("length", None, 2)


def test_a_stop_token_ends_the_text_and_is_part_of_it() -> None:
    model = engine(rules=(Rule((), Reply("one two three four")),))
    three = WORDS.encode(" three")[0]

    choice = model.plan(ask(stop_token_ids=(three,), stop=("four",))).choices[0]

    assert (choice.finish, choice.matched, choice.ids[-1]) == ("stop", three, three)
    assert model.plan(ask(stop_token_ids=(three,), min_tokens=4)).choices[0].matched is None


# ------------------------------------------------------------------------------------------------- what it was told


def test_a_script_is_said_in_turn_before_rules_and_free_text() -> None:
    model = engine(replies=(Reply("first"),), rules=(Rule(("HELLO",), Reply("ruled")),))
    model.script.add(Reply("second", finish="length"))

    assert say(model, ask()) == "first<|im_end|>"
    assert say(model, ask()) == "second"
    assert say(model, ask()) == "ruled<|im_end|>"
    assert say(model, ask("Goodbye")) != "ruled<|im_end|>"


def test_pieces_keep_their_bounds() -> None:
    choice = engine(replies=(Reply(pieces=("Hel", "lo", " you")),)).plan(ask()).choices[0]

    assert [WORDS.decode(choice.ids[a:b]) for a, b in pairwise([0, *choice.ends])] == [
        "Hel",
        "lo",
        " you",
        "<|im_end|>",
    ]


def test_reasoning_and_calls_are_said_as_the_template_has_them() -> None:
    reply = Reply("Well.", reasoning="Hm", tool_calls=(("f", {"x": 1}), ("g", {})))
    expected = (
        'Hm\n</think>\n\nWell.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call><|im_end|>'
    )

    assert say(engine(replies=(reply,)), ask(chat("Hi"))) == f"<think>\n{expected}"
    assert say(engine(replies=(reply,)), ask(chat("Hi", thinking=True))) == expected


def test_pieces_come_after_the_reasoning() -> None:
    choice = engine(replies=(Reply(reasoning="Hm", pieces=("a", "b")),)).plan(ask(chat("Hi"))).choices[0]

    parts = [WORDS.decode(choice.ids[a:b]) for a, b in pairwise([0, *choice.ends])]
    assert parts == ["<think>\nHm\n</think>\n\n", "a", "b", "<|im_end|>"]


def test_a_script_is_bounded() -> None:
    model = engine()

    with pytest.raises(ValueError, match="replies are waiting"):
        model.script.add(*[Reply("x")] * 10_001)


def test_a_prompt_that_opens_the_reasoning_gets_it_closed() -> None:
    assert say(engine(), ask(chat("Hi", thinking=True))).count("</think>\n\n") == 1
    assert say(engine(replies=(Reply("plain"),)), ask(chat("Hi", thinking=True))) == "</think>\n\nplain<|im_end|>"


def test_an_offered_tool_that_the_question_names_is_called() -> None:
    tools = json.dumps(TOOL)

    said = say(engine(), ask(chat("What is the weather in Rome?", tools=tools)))

    call = json.loads(said.removeprefix("<tool_call>\n").removesuffix("\n</tool_call><|im_end|>"))
    assert call == {"name": "get_weather", "arguments": {"city": "Rome"}}


def test_no_tool_is_called_without_need() -> None:
    tools = json.dumps(TOOL)

    assert "<tool_call>" not in say(engine(), ask(chat("Tell me a joke", tools=tools)))
    assert "<tool_call>" not in say(engine(), ask(chat("The weather?", tools=tools, answer="sunny")))
    assert "<tool_call>" not in say(engine(), ask(chat("The weather?", tools="{broken\n[]\n{}")))
    assert "<tool_call>" not in say(engine(call_tools=False), ask(chat("The weather?", tools=tools)))


def test_a_constraint_is_kept() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    said = say(engine(), ask(constraint=Constraint("json_schema", json.dumps(schema))))

    assert json.loads(said.removesuffix("<|im_end|>"))["city"]
    with pytest.raises(Refused, match="Invalid type"):
        engine().plan(ask(constraint=Constraint("json_schema", '{"type": "x"}')))


# --------------------------------------------------------------------------------------------------------- likelihoods


def test_logprobs_are_plausible_and_the_same_each_time() -> None:
    model = engine()
    choice = model.plan(ask()).choices[0]

    rows = model.logprobs(choice, 0, 5, 4)

    assert rows == model.logprobs(choice, 0, 5, 4)
    for row, token in zip(rows, choice.ids, strict=False):
        shares = [2.718281828**value for _, value in row.top]
        assert row.token_id == token
        assert (token, row.logprob) in row.top
        assert len({other for other, _ in row.top}) == 4
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1


def test_with_no_alternatives_there_is_only_the_sampled_token() -> None:
    model = engine()

    assert model.logprobs(model.plan(ask()).choices[0], 0, 1, 0)[0].top == ()
    prompt = model.prompt_logprobs([5, 6], 1)
    assert prompt[0] is None
    assert prompt[1].top == ((6, prompt[1].logprob),)


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("ids", "message"),
    [([], "cannot be empty"), ([WORDS.size], "out of vocabulary"), ([5] * 100, "longer than the maximum model length")],
)
def test_a_prompt_that_breaks_engines_is_refused(ids: list[int], message: str) -> None:
    with pytest.raises(Refused, match=message):
        engine(context_length=100).plan(EngineRequest("r", TokenIds(ids), Sampling()))


@pytest.mark.parametrize(
    "sampling",
    [
        {"max_tokens": 0},
        {"n": 0},
        {"n": 129},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"logprobs": 21},
        {"prompt_logprobs": 21},
        {"logit_bias": {10**6: 1.0}},
        {"min_tokens": 5, "max_tokens": 4},
    ],
)
def test_sampling_that_engines_refuse_is_refused(sampling: dict) -> None:
    with pytest.raises(Refused) as caught:
        engine().plan(ask(**sampling))

    assert caught.value.code == "INVALID_ARGUMENT"


def test_a_model_does_what_it_was_made_for() -> None:
    embedder = engine(generation_model=False)

    with pytest.raises(Refused, match="generate"):
        embedder.plan(ask())
    with pytest.raises(Refused, match="embed"):
        engine().embedding([1])
    vector = embedder.embedding([1, 2])
    assert sum(value * value for value in vector) == pytest.approx(1)
    assert vector == embedder.embedding([1, 2])
    assert vector != embedder.embedding([1, 3])


def test_a_rank_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="data_parallel_rank"):
        engine().plan(EngineRequest("r", TokenIds([5]), Sampling(), data_parallel_rank=5))


def test_a_constraint_that_it_does_not_declare_is_refused() -> None:
    with pytest.raises(Refused, match="json_object is not supported"):
        engine(constraints=("regex",)).plan(ask(constraint=Constraint("json_object")))


def test_the_shipped_model_is_small_and_knows_its_marks() -> None:
    assert sum(path.stat().st_size for path in MODEL_FOLDER.iterdir()) < 1_000_000
    assert WORDS.decode(WORDS.encode("Zürich, 東京 🙂 \u0000")) == "Zürich, 東京 🙂 \u0000"
    assert len(WORDS.encode("<tool_call></tool_call><|im_start|>")) == 3
    assert engine().model_info().context_length == 32768


@pytest.mark.full
@given(st.text(max_size=60))
def test_any_text_survives_the_shipped_tokenizer(text: str) -> None:
    assert WORDS.decode(WORDS.encode(text)) == text


@pytest.mark.parametrize(
    "wrong", [{"block_size": 0}, {"blocks": 0}, {"sentences": (3, 2)}, {"sentences": (0, 2)}, {"context_length": -1}]
)
def test_an_engine_that_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SimulatorConfig(**wrong)


@pytest.mark.parametrize(
    ("field", "wrong", "kind"),
    [
        ("replies", ("text",), "Reply"),
        ("replies", "text", "Reply"),
        ("rules", ({"a": "b"},), "Rule"),
        ("faults", (None, "stall"), "Fault"),
        ("fault_rates", (("stall", 0.5),), "Fault"),
        ("timing", {"decode_rate": 40}, "Timing"),
    ],
)
def test_what_stands_for_a_record_and_is_none_is_refused_when_the_settings_are_made(
    field: str, wrong: object, kind: str
) -> None:
    with pytest.raises(TypeError, match=rf"{field}: .* is no {kind}; write {kind}\("):
        SimulatorConfig(**{field: wrong})  # type: ignore[arg-type]
