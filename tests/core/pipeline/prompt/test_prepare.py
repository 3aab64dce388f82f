"""From a request to a prompt for any engine: what makes engines crash is refused before one is asked."""

from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.origins import ORIGINS

import smg_simulator
from smg_core.errors import InvalidRequest, PromptTooLong, SmgError, UnsupportedParameter
from smg_core.pipeline.prompt.prepare import assemble, encode, quickly_assembled, render, salt_of, take_media
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.request import (
    Caller,
    CustomTool,
    FunctionTool,
    GenerationRequest,
    HostedTool,
    Image,
    JsonFormat,
    MediaSource,
    Message,
    Sampling,
    SchemaFormat,
    Text,
    ToolChoice,
)
from smg_core.tokenizer.base import EncodeReport, Prompt
from smg_core.tokenizer.loader import TokenizerBundle, load_tokenizer
from smg_core.tokens import TokenIds
from smg_parsers.families.models import family

HELLO = (Message("user", (Text("Hello"),), content_is_text=True),)


@cache
def bundle() -> TokenizerBundle:
    return load_tokenizer(Path(smg_simulator.__file__).parent / "model")


def model(**changes: Any) -> ServedModel:
    made = ServedModel(
        name="m",
        tokenizer=bundle().tokenizer,
        template=bundle().template,
        context_length=100,
        vocab_size=bundle().tokenizer.vocab_size,
        parser=family("hermes"),
        default_sampling={"temperature": 0.6, "top_k": 20},
    )
    return attrs.evolve(made, **changes)


def asking(**fields: Any) -> GenerationRequest:
    return GenerationRequest(**{"id": "r", "model": "m", "messages": HELLO, **fields})


def prompted(request: GenerationRequest, served: ServedModel) -> Prompted:
    """The three steps in a row."""
    prompt = render(request, served)
    return assemble(request, served, prompt.text if isinstance(prompt, Prompt) else "", encode(prompt, served, ""))


def fault_of(request: GenerationRequest, served: ServedModel) -> SmgError:
    with pytest.raises(SmgError) as caught:
        prompted(request, served)
    return caught.value


def test_messages_become_the_ids_of_the_rendered_prompt() -> None:
    made = prompted(asking(), model())

    assert "Hello" in made.text
    assert list(made.ids) == list(bundle().tokenizer.encode(made.text))
    assert made.encoded.characters == len(made.text)


def test_raw_text_and_raw_ids_are_taken_as_they_are() -> None:
    text = prompted(asking(messages=(), prompt="Once upon"), model())
    ids = prompted(asking(messages=(), prompt=[5, 6, 7]), model())

    assert bundle().tokenizer.encode("Once upon") == text.ids
    assert list(ids.ids) == [5, 6, 7]


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    assert fault_of(asking(messages=(), prompt=prompt), model()).param == "prompt"


@pytest.mark.parametrize("wrong", [-1, 1 << 31, None])
def test_an_id_outside_the_vocabulary_is_refused(wrong: int | None) -> None:
    served = model()
    token = served.vocab_size if wrong is None else wrong

    assert fault_of(asking(messages=(), prompt=[1, token]), served).param == "prompt"
    assert prompted(asking(messages=(), prompt=[served.vocab_size - 1]), served)


@pytest.mark.parametrize(
    ("sampling", "param"),
    [
        (Sampling(logit_bias={10**6: 1.0}), "sampling.logit_bias"),
        (Sampling(logit_bias={-1: 1.0}), "sampling.logit_bias"),
        (Sampling(stop_token_ids=(10**6,)), "sampling.stop_token_ids"),
    ],
)
def test_ids_in_parameters_are_held_to_the_vocabulary_too(sampling: Sampling, param: str) -> None:
    assert fault_of(asking(sampling=sampling), model()).param == param


def test_the_models_context_may_be_full_to_the_last_token_and_not_beyond() -> None:
    served = model()
    assert prompted(asking(messages=(), prompt=[1] * 99), served)
    assert prompted(asking(messages=(), prompt=[1] * 60, sampling=Sampling(max_tokens=40)), served)
    long = fault_of(asking(messages=(), prompt=[1] * 100), served)
    greedy = fault_of(asking(messages=(), prompt=[1] * 60, sampling=Sampling(max_tokens=41)), served)

    assert isinstance(long, PromptTooLong)
    assert (long.prompt_tokens, long.context_length) == (100, 100)
    assert isinstance(greedy, PromptTooLong)
    assert (greedy.prompt_tokens, greedy.requested) == (60, 41)
    assert (long.param, greedy.param) == ("prompt", "sampling.max_tokens")


def test_a_prompt_of_any_length_is_taken_where_no_context_is_known() -> None:
    assert len(prompted(asking(messages=(), prompt=[1] * 500), model(context_length=0)).ids) == 500


def test_a_tool_that_nobody_here_can_call_is_refused_by_its_place() -> None:
    tools = (FunctionTool("f"), HostedTool("web_search"))
    error = fault_of(asking(messages=(), prompt=[1], tools=tools), model(context_length=0))

    assert isinstance(error, UnsupportedParameter)
    assert error.param == "tools[1]"


def test_a_function_and_a_custom_tool_of_one_name_are_refused() -> None:
    tools = (FunctionTool("f"), CustomTool("g"), CustomTool("f"))
    error = fault_of(asking(tools=tools), model(context_length=0))

    assert isinstance(error, InvalidRequest)
    assert error.param == "tools[2].name"


def test_a_model_without_a_template_takes_no_messages() -> None:
    error = fault_of(asking(), model(template=None))

    assert isinstance(error, InvalidRequest)
    assert error.param == "messages"
    assert prompted(asking(messages=(), prompt="text"), model(template=None))


def test_tools_that_may_not_be_called_are_not_shown() -> None:
    tool = FunctionTool("get_weather", "The weather.", {"type": "object"})
    shown = prompted(asking(tools=(tool,)), model(context_length=1000))
    hidden = prompted(asking(tools=(tool,), tool_choice=ToolChoice("none")), model(context_length=1000))

    assert "get_weather" in shown.text
    assert "get_weather" not in hidden.text


def test_an_encoding_of_nothing_is_refused_whoever_made_it() -> None:
    with pytest.raises(InvalidRequest):
        assemble(asking(), model(), "", EncodeReport(TokenIds(), 0))


def test_a_model_whose_engines_encode_by_themselves_has_a_prompt_without_ids() -> None:
    made = assemble(asking(), model(tokenizer=None), "", EncodeReport(TokenIds(), 0))

    assert len(made.ids) == 0


def test_a_finished_answer_is_held_to_the_format_that_was_asked_for() -> None:
    plain, held = prompted(asking(), model()), prompted(asking(response_format=JsonFormat()), model())

    assert plain.check is None
    assert held.check is not None
    assert held.check("[]") is not None


def test_a_schema_that_is_none_is_refused_before_any_engine_is_asked() -> None:
    error = fault_of(asking(response_format=SchemaFormat({"type": "strin"})), model())

    assert isinstance(error, InvalidRequest)
    assert error.param == "response_format.schema"


def test_a_medium_is_refused_by_its_place_where_the_model_takes_none() -> None:
    picture = Message("user", (Text("What?"), Image(MediaSource(url="https://example.com/1"))))
    with pytest.raises(UnsupportedParameter) as caught:
        take_media(asking(messages=(*HELLO, picture)), model())

    assert caught.value.param == "messages[1].parts[1]"


def test_prompts_of_two_tenants_or_two_salts_are_kept_apart() -> None:
    def salt(tenant: str, own: str | None) -> str:
        return salt_of(asking(caller=Caller(tenant=tenant), cache_salt=own))

    salts = [salt(tenant, own) for tenant in ("", "a", "b") for own in (None, "a", "b")]

    assert len(set(salts)) == len(salts)
    assert salts[0] == ""


HEAVY = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}}


@pytest.mark.parametrize(
    ("fields", "quick"),
    [
        ({}, True),
        ({"response_format": SchemaFormat(HEAVY)}, False),
        ({"tools": (FunctionTool("f", None, HEAVY),)}, True),
        ({"tools": (FunctionTool("f", None, HEAVY, strict=True),)}, False),
        ({"tools": (FunctionTool("f", None, HEAVY),), "tool_choice": ToolChoice("required")}, False),
        ({"tools": (FunctionTool("f", None, HEAVY),), "origin": ORIGINS["responses"]}, False),
        ({"tools": (FunctionTool("f", None, HEAVY, strict=False),), "origin": ORIGINS["responses"]}, True),
        ({"tools": (FunctionTool("f", None, {"type": "object"}, strict=True),)}, True),
        ({"tools": tuple(FunctionTool(f"f{n}", "", {"x": "y" * 99}, strict=True) for n in range(99))}, False),
    ],
)
def test_schemas_that_take_long_are_not_compiled_on_the_event_loop(fields: dict[str, Any], quick: bool) -> None:
    assert quickly_assembled(asking(**fields)) == quick
