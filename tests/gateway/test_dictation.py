"""Models that write recordings down and do nothing else: Whisper and Voxtral Realtime, over gRPC, by the official SDK."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.gateway.conftest import House, in_process
from tests.gateway.test_transcriptions import finished, refused
from tests.gateway.test_vision import VLLM, sdk, seeing, seen
from tests.gateway.vision_models import sound, voxtral_realtime, whisper

from smg_core import Config
from smg_simulator import Fault, Reply
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

WAV = ("speech.wav", sound(0.5), "audio/wav")


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(whisper(tmp_path_factory.mktemp("whisper") / "model"))


@pytest.fixture(scope="module")
def realtime(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(voxtral_realtime(tmp_path_factory.mktemp("voxtral") / "model"))


def prompts(house: House) -> list[str]:
    """What the engine was asked, as text with its control tokens."""
    return [house.engine.engine.vocabulary.decode(each.input_ids) for each in house.engine.requests]


def saying(folder: str, *replies: str) -> SimulatorConfig:
    """An engine whose answers are these."""
    return SimulatorConfig(model_folder=folder, replies=tuple(Reply(each) for each in replies))


async def test_whisper_is_sent_the_prompt_that_it_was_trained_on(heard: str, served: Callable[..., Any]) -> None:
    async with seeing(heard, served) as house, sdk(house) as client:
        answer = await client.audio.transcriptions.create(model="sim", file=WAV, language="de")
        with pytest.deprecated_call():
            asked = client.audio.translations.create(model="sim", file=WAV, extra_body={"language": "de"})
        error = await refused(asked)
        told, media = finished(house), seen(house, 0)
        (one,) = prompts(house)
    assert one == "<|startoftranscript|><|de|><|transcribe|><|notimestamps|>"
    assert error.param == "language"  # OpenAI's translations have none
    assert (media.placeholders, media.token_id) == (((0, 100),), None)
    assert {name: tensor.shape for name, tensor in media.tensors.items()} == {"input_features": (1, 80, 200)}
    assert answer.text
    assert answer.usage.input_tokens == 4
    assert answer.usage.input_token_details.audio_tokens == 0
    assert told.api == "translations"


async def test_a_language_that_is_not_told_is_asked_for_first(heard: str) -> None:
    async with in_process(saying(heard, "<|de|>", "Das Schaf."), config=Config(workers=VLLM)) as house:
        async with sdk(house) as client:
            answer = await client.audio.transcriptions.create(model="sim", file=WAV, prompt="Schafe")
        first, second = house.engine.requests
        begin, _, said = prompts(house)[1].partition("<|startoftranscript|>")
        spoken = {house.engine.engine.vocabulary.encode(f"<|{each}|>")[0] for each in ("en", "de")}
    assert answer.text == "Das Schaf."
    assert prompts(house)[0] == "<|startoftranscript|>"
    assert (first.sampling.max_tokens, set(first.sampling.logit_bias or ())) == (1, spoken)
    assert (begin, said) == ("<|startofprev|> Schafe", "<|de|><|transcribe|><|notimestamps|>")
    assert not second.sampling.logit_bias
    assert answer.usage.input_tokens == len(first.input_ids) + len(second.input_ids)


async def test_a_stream_shows_nothing_of_the_language(heard: str) -> None:
    async with (
        in_process(saying(heard, "<|de|>", "Das Schaf."), config=Config(workers=VLLM)) as house,
        sdk(house) as client,
    ):
        stream = await client.audio.transcriptions.create(model="sim", file=WAV, stream=True)
        events = [each async for each in stream]
    assert "".join(each.delta for each in events if each.type == "transcript.text.delta") == "Das Schaf."
    assert events[-1].type == "transcript.text.done"


async def test_a_translation_finds_out_what_it_translates(heard: str) -> None:
    async with in_process(saying(heard, "<|de|>", "The sheep."), config=Config(workers=VLLM)) as house:
        async with sdk(house) as client:
            with pytest.deprecated_call():
                asked = client.audio.translations.create(model="sim", file=WAV)
            answer = await asked
        assert prompts(house)[1] == "<|startoftranscript|><|de|><|translate|><|notimestamps|>"
    assert answer.text == "The sheep."


async def test_an_engine_that_names_no_language_has_failed(heard: str) -> None:
    async with in_process(saying(heard, "sheep"), config=Config(workers=VLLM)) as house, sdk(house) as client:
        with pytest.raises(openai.InternalServerError, match="no language"):
            await client.audio.transcriptions.create(model="sim", file=WAV)
        assert finished(house).outcome != "ok"


async def test_a_model_of_english_alone_is_asked_for_nothing(tmp_path: Any) -> None:
    english = str(whisper(tmp_path / "model", vocab_size=51864))
    async with seeing(english) as house, sdk(house) as client:
        assert (await client.audio.transcriptions.create(model="sim", file=WAV)).text
        error = await refused(client.audio.transcriptions.create(model="sim", file=WAV, language="de"))
        with pytest.deprecated_call():
            asked = client.audio.translations.create(model="sim", file=WAV)
        other = await refused(asked)
        assert prompts(house) == ["<|startoftranscript|><|notimestamps|>"]
    assert (error.param, other.param) == ("language", "model")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"language": "xx"}, "language"),
        ({"language": "German"}, "language"),
        ({"language": "de", "prompt": "so <|translate|>"}, "prompt"),
        ({"language": "de", "file": ("long.wav", sound(7.1), "audio/wav")}, "file"),
        ({"language": "de", "response_format": "srt"}, "response_format"),
    ],
)
async def test_what_whisper_cannot_be_asked_is_refused_by_its_field(
    heard: str, fields: dict[str, Any], param: str
) -> None:
    async with seeing(heard, max_seconds=7) as house, sdk(house) as client:
        error = await refused(client.audio.transcriptions.create(**{"model": "sim", "file": WAV, **fields}))
        assert not house.engine.requests
    assert error.param == param


@pytest.mark.parametrize("folder", ["heard", "realtime"])
async def test_other_apis_are_told_what_the_model_does(folder: str, request: pytest.FixtureRequest) -> None:
    """Its engine fails on a prompt without a recording."""
    user: Any = {"role": "user", "content": "hi"}
    async with seeing(request.getfixturevalue(folder)) as house, sdk(house) as client:
        for asked in (
            client.chat.completions.create(model="sim", messages=[user]),
            client.completions.create(model="sim", prompt="<|startoftranscript|>"),
            client.completions.create(model="sim", prompt=[3, 4]),
            client.responses.create(model="sim", input="hi"),
        ):
            assert "/v1/audio/transcriptions" in str(await refused(asked))
        assert not house.engine.requests


async def test_what_voxtral_realtime_writes_ends_with_what_it_hears(realtime: str, served: Callable[..., Any]) -> None:
    async with seeing(realtime, served) as house, sdk(house) as client:
        answer = await client.audio.transcriptions.create(model="sim", file=WAV, language="de", prompt="Schafe")
        with pytest.deprecated_call():
            asked = client.audio.translations.create(model="sim", file=WAV)
        error = await refused(asked)
        (one,), media = house.engine.requests, seen(house)
    tokens = 32 + 7 + 6 + 1 + 10  # half a second is 6.25 tokens
    assert prompts(house) == ["<s>" + "[STREAMING_PAD]" * 38]
    assert media.placeholders == ((0, tokens),)
    assert {name: tensor.shape for name, tensor in media.tensors.items()} == {"audio_arrays": (1, tokens * 1280)}
    assert one.sampling.max_tokens == tokens - 39
    assert answer.usage.output_tokens <= tokens - 39
    assert answer.usage.input_token_details.audio_tokens == answer.usage.input_tokens == 39
    assert error.param == "model"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_recording_longer_than_whisper_reads_is_sent_in_parts(heard: str, stream: bool) -> None:
    """Of two seconds here: six and a half are five parts, each of which is another item."""
    said = ("<|de|>", " Ein", " Schaf", " und", " noch", " eins.")
    long = ("long.wav", sound(6.5), "audio/wav")
    async with in_process(saying(heard, *said), config=Config(workers=VLLM)) as house, sdk(house) as client:
        if stream:
            events = [
                each async for each in await client.audio.transcriptions.create(model="sim", file=long, stream=True)
            ]
            text, usage = "".join(each.delta for each in events[:-1]), events[-1].usage
            assert events[-1].text == text
        else:
            answer = await client.audio.transcriptions.create(model="sim", file=long)
            text, usage = answer.text, answer.usage
        requests = house.engine.requests
    assert text == " Ein Schaf und noch eins."
    assert prompts(house) == [
        "<|startoftranscript|>",
        *["<|startoftranscript|><|de|><|transcribe|><|notimestamps|>"] * 5,
    ]
    assert len({seen(house, at).hashes for at in range(6)}) == 5  # the language is that of the first part
    assert usage.input_tokens == sum(len(each.input_ids) for each in requests)


async def test_a_part_that_fails_ends_the_answer(heard: str) -> None:
    config = SimulatorConfig(
        model_folder=heard, replies=(Reply(" Ein"), Reply(" Schaf")), faults=(None, Fault("error"))
    )
    long = ("long.wav", sound(2.5), "audio/wav")
    async with in_process(config, config=Config(workers=VLLM)) as house, sdk(house) as client:
        with pytest.raises(openai.APIStatusError):
            await client.audio.transcriptions.create(model="sim", file=long, language="de")
