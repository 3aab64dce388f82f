"""From a prompt to what one kind of engine is sent: what it cannot do is refused by name, and each kind is fitted once."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from tests.core.pipeline.prompt.test_prepare import asking, model, prompted

from smg_core.engines.base import EngineFacts
from smg_core.engines.constraint import Constraint
from smg_core.errors import InvalidRequest, NoWorker, PromptTooLong, UnsupportedParameter
from smg_core.pipeline.fit.fit import FitForChat, FitForIds, fit, fitted
from smg_core.pipeline.output.processor import OutputProcessor
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.pipeline.prompt.prepare import assemble
from smg_core.pipeline.prompt.prompted import Prompted
from smg_core.request import (
    Caller,
    FunctionTool,
    GenerationRequest,
    JsonFormat,
    MediaSource,
    ReasoningSettings,
    Sampling,
    SchemaFormat,
    ToolChoice,
)
from smg_core.sealing.cache_salts import CacheSalts
from smg_core.speech import Transcription
from smg_core.tokenizer.base import EncodeReport
from smg_core.tokens import TokenIds

ABLE = EngineFacts("test", constraints=frozenset({"json_schema", "json_object", "structural_tag"}))
CHAT = EngineFacts("test", takes_ids=False, transport="http")


def made(**fields: Any) -> Prompted:
    return prompted(asking(**fields), model(context_length=1000))


def for_ids(prompt: Prompted, facts: EngineFacts = ABLE) -> FitForIds:
    found = fit(prompt, facts)
    assert isinstance(found, FitForIds)
    return found


def test_an_engine_that_takes_ids_is_sent_the_prompts_ids() -> None:
    prompt = made(cache_salt="salt", stream=True)
    found = for_ids(prompt)

    assert (found.request.id, found.request.stream, found.request.cache_salt) == ("r", True, "salt")
    assert found.request.input_ids is prompt.ids
    assert found.plan.prompt_tokens == len(prompt.ids)


def test_an_answer_whose_length_nobody_named_has_the_rest_of_the_context_or_what_is_kept_of_one_that_leaves_whole() -> (
    None
):
    def most(facts: EngineFacts, kept: int, **fields: Any) -> int | None:
        found = fit(prompted(asking(**fields), model(context_length=1000, answer_bytes=kept)), facts)
        return found.request.sampling.max_tokens

    length = len(made().ids)
    for kept in (0, 200 * 1000):
        assert (most(ABLE, kept), most(CHAT, kept)) == (1000 - length, None)
    for facts, rest in ((ABLE, 1000 - length), (CHAT, None)):
        assert most(facts, 200 * 60) == 60
        assert most(facts, 200 * 60, sampling=Sampling(n=3)) == 20
        assert most(facts, (200 + 3 * 320) * 60, sampling=Sampling(logprobs=2)) == 60
        assert most(facts, 200 * 60, stream=True) == rest
        assert most(facts, 200 * 60, sampling=Sampling(max_tokens=30)) == 30
    with pytest.raises(InvalidRequest, match="before it leaves"):
        most(ABLE, 200 * 60, sampling=Sampling(min_tokens=61))


SALTS = CacheSalts(b"secret")


def of_tenant(tenant: str, **fields: Any) -> Prompted:
    return prompted(asking(caller=Caller(tenant=tenant), **fields), model(context_length=1000, salts=SALTS))


def test_engines_are_given_a_salt_for_each_tenant_in_which_the_clients_own_is_mixed() -> None:
    salts = [
        for_ids(of_tenant(tenant, cache_salt=own)).request.cache_salt
        for tenant in ("a", "b")
        for own in (None, "a", "b", SALTS.of("a", None))
    ]

    assert len({*salts, *"ab"}) == len(salts) + 2
    assert None not in salts


def test_where_tenants_are_not_told_apart_the_clients_salt_is_passed_on_as_it_is() -> None:
    assert for_ids(of_tenant("")).request.cache_salt is None
    assert for_ids(of_tenant("", cache_salt="s")).request.cache_salt == "s"
    assert for_ids(prompted(asking(caller=Caller(tenant="a"), cache_salt="s"), model())).request.cache_salt == "s"


def test_an_engine_that_takes_no_salt_is_sent_none_and_serves_all_tenants() -> None:
    facts = attrs.evolve(ABLE, cache_salt=False)

    assert for_ids(of_tenant("a"), facts).request.cache_salt is None
    with pytest.raises(UnsupportedParameter):
        fit(of_tenant("a", cache_salt="s"), facts)


def test_an_engine_that_speaks_chat_is_given_salt_and_key_of_the_tenant() -> None:
    def sent(tenant: str, facts: EngineFacts) -> GenerationRequest:
        found = fit(of_tenant(tenant, cache_key="k"), facts)
        assert isinstance(found, FitForChat)
        return found.request

    ours, theirs = sent("a", CHAT), sent("b", CHAT)
    assert None not in (ours.cache_salt, ours.cache_key)
    assert (ours.cache_salt, ours.cache_key) != (theirs.cache_salt, theirs.cache_key)
    assert sent("a", attrs.evolve(CHAT, cache_salt=False)).cache_salt is None
    assert (sent("", CHAT).cache_salt, sent("", CHAT).cache_key) == (None, "k")


def test_an_engine_that_speaks_chat_is_sent_the_request_as_it_came() -> None:
    prompt = made(sampling=Sampling(n=3))
    found = fit(prompt, CHAT)

    assert isinstance(found, FitForChat)
    assert found.request is prompt.request
    assert found.plan.choices == 3


def test_a_prompt_without_ids_waits_for_a_tokenizer_and_suits_engines_that_speak_chat() -> None:
    prompt = assemble(asking(), model(tokenizer=None), "", EncodeReport(TokenIds(), 0))

    assert isinstance(fit(prompt, CHAT), FitForChat)
    with pytest.raises(NoWorker):
        fit(prompt, ABLE)


# --------------------------------------------------------------------------------------------------- once for each kind

facts = st.builds(
    EngineFacts,
    dialect=st.sampled_from(["a", "b"]),
    n=st.booleans(),
    greedy_n=st.booleans(),
    stop_strings=st.booleans(),
    context_length=st.sampled_from([0, 40, 500]),
    constraints=st.frozensets(st.sampled_from(["json_schema", "json_object"])),
)


@given(facts, st.integers(1, 2), st.sampled_from([None, 0.0]))
def test_equal_facts_are_fitted_once_and_a_refusal_is_raised_every_time(
    facts: EngineFacts, n: int, temperature: float | None
) -> None:
    prompt = made(sampling=Sampling(n=n, temperature=temperature, stop=("END",)), response_format=JsonFormat())
    outcomes: list[Any] = []
    for each in (facts, attrs.evolve(facts)):
        try:
            outcomes.append(fitted(prompt, each))
        except UnsupportedParameter as refusal:
            outcomes.append(refusal)

    assert outcomes[0] is outcomes[1]
    assert [known for known, _ in prompt.fits] == [facts]


@given(facts)
def test_fitting_is_pure(facts: EngineFacts) -> None:
    prompt = made(sampling=Sampling(stop=("END",)))
    before = asdict(prompt.request.sampling)
    first, second = for_ids(prompt, facts), for_ids(prompt, facts)

    assert first.request == second.request
    assert replace(first.plan, make_parser=None) == replace(second.plan, make_parser=None)
    assert asdict(prompt.request.sampling) == before
    assert not prompt.fits


def test_each_kind_of_engine_has_a_fit_of_its_own() -> None:
    prompt = made(sampling=Sampling(n=2, temperature=0.0))
    able, apart = fitted(prompt, ABLE), fitted(prompt, attrs.evolve(ABLE, greedy_n=False))

    assert isinstance(able, FitForIds)
    assert isinstance(apart, FitForIds)
    assert (able.request.sampling.n, apart.request.sampling.n) == (2, 1)
    assert len(prompt.fits) == 2


# ----------------------------------------------------------------------------------------------------------- sampling


def test_what_was_not_said_comes_from_the_models_own_defaults() -> None:
    silent = for_ids(made()).request.sampling
    told = for_ids(made(sampling=Sampling(temperature=0.0, top_k=1))).request.sampling

    assert (silent.temperature, silent.top_k, silent.top_p) == (0.6, 20, None)
    assert (told.temperature, told.top_k) == (0.0, 1)


def test_greedy_choices_are_sampled_once_where_the_engine_refuses_several() -> None:
    greedy = made(sampling=Sampling(n=3, temperature=0.0))
    apart, able = for_ids(greedy, attrs.evolve(ABLE, greedy_n=False)), for_ids(greedy)

    assert (apart.request.sampling.n, apart.plan.copies, apart.plan.choices) == (1, 3, 3)
    assert (able.request.sampling.n, able.plan.copies, able.plan.choices) == (3, 1, 3)


def test_choices_that_are_greedy_by_the_models_default_are_copied_too() -> None:
    served = model(default_sampling={"temperature": 0.0})
    found = for_ids(prompted(asking(sampling=Sampling(n=2)), served), attrs.evolve(ABLE, greedy_n=False))

    assert (found.request.sampling.n, found.plan.copies) == (1, 2)


def test_choices_that_are_drawn_are_never_copied() -> None:
    found = for_ids(made(sampling=Sampling(n=2, temperature=0.5)), attrs.evolve(ABLE, greedy_n=False))

    assert (found.request.sampling.n, found.plan.copies) == (2, 1)


def test_an_answer_without_a_bound_may_fill_the_context_of_its_engine() -> None:
    prompt = prompted(asking(messages=(), prompt=[1] * 99), model())

    assert for_ids(prompt).request.sampling.max_tokens == 1  # the model's, which has 100
    assert for_ids(prompt, attrs.evolve(ABLE, context_length=150)).request.sampling.max_tokens == 51


def test_a_prompt_over_the_context_of_one_engine_is_refused_for_that_one_alone() -> None:
    prompt = prompted(asking(messages=(), prompt=[1] * 60, sampling=Sampling(max_tokens=20)), model())
    with pytest.raises(PromptTooLong) as caught:
        fit(prompt, attrs.evolve(ABLE, context_length=70))

    assert (caught.value.prompt_tokens, caught.value.requested, caught.value.context_length) == (60, 20, 70)
    assert for_ids(prompt, attrs.evolve(ABLE, context_length=80)).request.sampling.max_tokens == 20


def test_without_a_known_context_the_engine_decides() -> None:
    prompt = prompted(asking(messages=(), prompt=[1] * 500), model(context_length=0))

    assert for_ids(prompt).request.sampling.max_tokens is None


def test_stop_strings_are_not_sent_to_an_engine_that_does_not_look_for_them_and_are_found_all_the_same() -> None:
    prompt = made(sampling=Sampling(stop=("END",)))
    able, unable = for_ids(prompt), for_ids(prompt, attrs.evolve(ABLE, stop_strings=False))

    assert (able.request.sampling.stop, unable.request.sampling.stop) == (("END",), ())
    assert able.plan.stop == unable.plan.stop == ("END",)
    assert OutputProcessor(unable.plan).next_call == 0


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("fields", "facts", "param"),
    [
        ({"sampling": Sampling(n=2)}, EngineFacts("test", n=False), "sampling.n"),
        ({"sampling": Sampling(n=3)}, EngineFacts("test", max_n=2), "sampling.n"),
        ({"sampling": Sampling(logprobs=6)}, EngineFacts("test", max_logprobs=5), "sampling.logprobs"),
        ({"sampling": Sampling(logprobs=0)}, EngineFacts("test", logprobs=False), "sampling.logprobs"),
        (
            {"sampling": Sampling(prompt_logprobs=1)},
            EngineFacts("test", prompt_logprobs=False),
            "sampling.prompt_logprobs",
        ),
        ({"cache_salt": "tenant"}, EngineFacts("test", cache_salt=False), "cache_salt"),
        ({"response_format": JsonFormat()}, EngineFacts("test"), "response_format"),
        (
            {"tools": (FunctionTool("f"),), "tool_choice": ToolChoice("required")},
            EngineFacts("test"),
            "tool_choice",
        ),
    ],
)
def test_what_the_engine_cannot_do_is_refused_by_name(fields: Any, facts: EngineFacts, param: str) -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        fit(made(**fields), facts)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"sampling": Sampling(n=2)}, EngineFacts("test", max_n=2)),
        ({"sampling": Sampling(logprobs=5)}, EngineFacts("test", max_logprobs=5)),
        ({"sampling": Sampling(logprobs=99)}, EngineFacts("test", max_logprobs=None)),
    ],
)
def test_a_bound_may_be_reached(fields: Any, facts: EngineFacts) -> None:
    assert isinstance(fit(made(**fields), facts), FitForIds)


def test_what_no_engine_at_the_chat_door_can_do_is_refused_there_too() -> None:
    with pytest.raises(UnsupportedParameter) as caught:
        fit(made(sampling=Sampling(n=2)), attrs.evolve(CHAT, n=False))

    assert caught.value.param == "sampling.n"


# -------------------------------------------------------------------------------------------------------- constraints


def test_a_format_is_the_engines_constraint_and_a_required_call_takes_its_place() -> None:
    schema = SchemaFormat({"type": "object"})
    plain = for_ids(made(response_format=schema, reasoning=ReasoningSettings(enabled=False)))
    forced = for_ids(made(response_format=schema, tools=(FunctionTool("f"),), tool_choice=ToolChoice("required")))

    assert plain.request.constraint == Constraint("json_schema", '{"type":"object"}')
    assert forced.request.constraint is not None
    assert forced.request.constraint.kind == "structural_tag"
    assert '"name": "f"' in forced.request.constraint.value.replace('\\"', '"')


# -------------------------------------------------------------------------------------------------------------- media


def with_media(*kinds: str) -> Prompted:
    items = [MediaItem(kind, MediaSource(url="https://x.example/1"), f"m[{place}]") for place, kind in enumerate(kinds)]
    request: GenerationRequest = asking()
    return assemble(request, model(), "", EncodeReport(TokenIds([1, 2]), 0), items)


IMAGES, ALL = frozenset({"image"}), frozenset({"image", "video", "audio"})


@pytest.mark.parametrize(
    ("kinds", "takes", "together", "param"),
    [
        (["image", "image"], IMAGES, frozenset(), None),
        (["image", "video"], IMAGES, ALL, "m[1]"),
        (["image", "video"], ALL, frozenset(), "m[1]"),
        (["image", "image", "audio"], ALL, IMAGES, "m[2]"),
        (["image", "video"], ALL, frozenset({"image", "video"}), None),
        (["audio"], frozenset(), ALL, "m[0]"),
        (["video"], None, frozenset(), None),  # it cannot say: the model's files have decided
        (["video", "image"], None, frozenset(), "m[1]"),
    ],
)
def test_media_that_one_engine_does_not_take_or_not_together_are_refused_by_their_place(
    kinds: list[str], takes: frozenset[str] | None, together: frozenset[str], param: str | None
) -> None:
    facts = EngineFacts("test", media=takes, media_together=together)
    if param is None:
        assert fit(with_media(*kinds), facts)
        return
    with pytest.raises(UnsupportedParameter) as caught:
        fit(with_media(*kinds), facts)
    assert caught.value.param == param


@pytest.mark.parametrize("asked", [Transcription(detects=True), Transcription(part=(0, 2))])
def test_one_question_of_several_about_a_recording_is_for_engines_that_are_sent_what_is_prepared_here(
    asked: Transcription,
) -> None:
    """An engine that is sent the recording itself would write down all of it each time."""
    question = made(transcription=asked)
    assert fit(question, ABLE)
    with pytest.raises(UnsupportedParameter, match="takes recordings whole"):
        fit(question, CHAT)
    assert fit(made(transcription=Transcription()), CHAT)
