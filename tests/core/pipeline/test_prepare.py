"""From a request to what the engine is sent: everything that makes engines crash is refused before one is asked."""

from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

import smg_core.simulator
from smg_core.engines.base import EngineFacts
from smg_core.errors import InvalidRequest, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.pipeline.prepare import Prepared, assemble, encode, render
from smg_core.pipeline.served import ServedModel
from smg_core.request import CustomTool, FunctionTool, GenerationRequest, Message, Sampling, Text, ToolChoice
from smg_core.tokenizer.base import EncodeReport, Prompt
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer
from smg_core.tokens import TokenIds
from smg_parsers.models import family

HELLO = (Message("user", (Text("Hello"),), content_is_text=True),)


@cache
def bundle() -> TokenizerBundle:
    return load_tokenizer(Path(smg_core.simulator.__file__).parent / "model")


def model(**changes: Any) -> ServedModel:
    made = ServedModel(
        name="m",
        tokenizer=bundle().tokenizer,
        template=bundle().template,
        context_length=100,
        vocab_size=bundle().tokenizer.vocab_size,
        dialect="vllm",
        capabilities=EngineFacts("test", constraints=frozenset({"json_schema", "structural_tag"})),
        parser=family("hermes"),
        default_sampling={"temperature": 0.6, "top_k": 20},
    )
    return attrs.evolve(made, **changes)


def asking(**fields: Any) -> GenerationRequest:
    return GenerationRequest(**{"id": "r", "model": "m", "messages": HELLO, **fields})


def prepared(request: GenerationRequest, served: ServedModel) -> Prepared:
    """The three steps in a row."""
    prompt = render(request, served)
    return assemble(request, served, prompt.text if isinstance(prompt, Prompt) else "", encode(prompt, served, ""))


def fault_of(request: GenerationRequest, served: ServedModel) -> SmgError:
    with pytest.raises(SmgError) as caught:
        prepared(request, served)
    return caught.value


def test_messages_become_the_ids_of_the_rendered_prompt() -> None:
    made = prepared(asking(), model())

    assert "Hello" in made.prompt
    assert list(made.engine.input_ids) == list(bundle().tokenizer.encode(made.prompt))
    assert made.plan.prompt_tokens == len(made.engine.input_ids)


def test_raw_text_and_raw_ids_are_taken_as_they_are() -> None:
    text = prepared(asking(messages=(), prompt="Once upon"), model())
    ids = prepared(asking(messages=(), prompt=[5, 6, 7]), model())

    assert bundle().tokenizer.encode("Once upon") == text.engine.input_ids
    assert list(ids.engine.input_ids) == [5, 6, 7]


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    assert fault_of(asking(messages=(), prompt=prompt), model()).param == "prompt"


@pytest.mark.parametrize("wrong", [-1, 1 << 31, None])
def test_an_id_outside_the_vocabulary_is_refused(wrong: int | None) -> None:
    served = model()
    token = served.vocab_size if wrong is None else wrong

    assert fault_of(asking(messages=(), prompt=[1, token]), served).param == "prompt"
    assert prepared(asking(messages=(), prompt=[served.vocab_size - 1]), served)


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        (Sampling(logit_bias={10**6: 1.0}), "logit_bias"),
        (Sampling(logit_bias={-1: 1.0}), "logit_bias"),
        (Sampling(stop_token_ids=(10**6,)), "stop_token_ids"),
    ],
)
def test_ids_in_parameters_are_held_to_the_vocabulary_too(sampling: Sampling, param: str) -> None:
    assert fault_of(asking(sampling=sampling), model()).param == param


def test_the_context_is_full_to_the_last_token_and_not_beyond() -> None:
    served = model()
    whole = prepared(asking(messages=(), prompt=[1] * 99), served)
    exact = prepared(asking(messages=(), prompt=[1] * 60, sampling=Sampling(max_tokens=40)), served)
    long = fault_of(asking(messages=(), prompt=[1] * 100), served)
    greedy = fault_of(asking(messages=(), prompt=[1] * 60, sampling=Sampling(max_tokens=41)), served)

    assert whole.engine.sampling.max_tokens == 1
    assert exact.engine.sampling.max_tokens == 40
    assert isinstance(long, PromptTooLong)
    assert (long.prompt_tokens, long.context_length) == (100, 100)
    assert isinstance(greedy, PromptTooLong)
    assert (greedy.prompt_tokens, greedy.requested) == (60, 41)


def test_without_a_known_context_the_engine_decides() -> None:
    made = prepared(asking(messages=(), prompt=[1] * 500), model(context_length=0))

    assert made.engine.sampling.max_tokens is None


def test_what_was_not_said_comes_from_the_models_own_defaults() -> None:
    silent = prepared(asking(), model()).engine.sampling
    told = prepared(asking(sampling=Sampling(temperature=0.0, top_k=1)), model()).engine.sampling

    assert (silent.temperature, silent.top_k, silent.top_p) == (0.6, 20, None)
    assert (told.temperature, told.top_k) == (0.0, 1)


def test_greedy_choices_are_sampled_once_where_the_engine_refuses_several() -> None:
    greedy = asking(sampling=Sampling(n=3, temperature=0.0))
    apart = prepared(greedy, model(capabilities=EngineFacts("test", greedy_n=False)))
    able = prepared(greedy, model(capabilities=EngineFacts("test", greedy_n=True)))

    assert (apart.engine.sampling.n, apart.plan.copies, apart.plan.choices) == (1, 3, 3)
    assert (able.engine.sampling.n, able.plan.copies, able.plan.choices) == (3, 1, 3)


@pytest.mark.parametrize(
    ("fields", "able", "param"),
    [
        ({"sampling": Sampling(n=2)}, EngineFacts("test", n=False), "n"),
        ({"sampling": Sampling(logprobs=6)}, EngineFacts("test", max_logprobs=5), "top_logprobs"),
        ({"sampling": Sampling(logprobs=0)}, EngineFacts("test", logprobs=False), "logprobs"),
        ({"cache_salt": "tenant"}, EngineFacts("test", cache_salt=False), "cache_salt"),
        ({"sampling": Sampling(prompt_logprobs=1)}, EngineFacts("test", prompt_logprobs=False), "prompt_logprobs"),
        ({"tools": (CustomTool("free"),)}, EngineFacts("test"), "tools[0].type"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(fields: Any, able: EngineFacts, param: str) -> None:
    error = fault_of(asking(**fields), model(capabilities=able))

    assert isinstance(error, UnsupportedParameter)
    assert error.param == param


def test_stop_strings_are_not_sent_to_an_engine_that_does_not_look_for_them() -> None:
    asked = asking(sampling=Sampling(stop=("END",)))
    able = prepared(asked, model(capabilities=EngineFacts("test")))
    unable = prepared(asked, model(capabilities=EngineFacts("test", stop_strings=False)))

    assert (able.engine.sampling.stop, unable.engine.sampling.stop) == (("END",), ())
    assert able.plan.stop == unable.plan.stop == ("END",)


def test_a_model_without_a_template_takes_no_messages() -> None:
    error = fault_of(asking(), model(template=None))

    assert isinstance(error, InvalidRequest)
    assert error.param == "messages"
    assert prepared(asking(messages=(), prompt="text"), model(template=None))


def test_tools_that_may_not_be_called_are_not_shown() -> None:
    tool = FunctionTool("get_weather", "The weather.", {"type": "object"})
    shown = prepared(asking(tools=(tool,)), model(context_length=1000))
    hidden = prepared(asking(tools=(tool,), tool_choice=ToolChoice("none")), model(context_length=1000))

    assert "get_weather" in shown.prompt
    assert "get_weather" not in hidden.prompt


def test_an_encoding_of_nothing_is_refused_whoever_made_it() -> None:
    with pytest.raises(InvalidRequest):
        assemble(asking(), model(), "", EncodeReport(TokenIds(), 0))
