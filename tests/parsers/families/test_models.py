"""Real model ids find their families, templates speak where ids do not, and what fits nothing says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_parsers import FAMILIES, Family, Parser, Text, UnknownModelFamily, explain, reasoning_open, register
from smg_parsers.families import model_ids
from smg_parsers.families.models import family as family_named

IDS: dict[str, str] = json.loads((Path(__file__).parent / "model_ids.json").read_text(encoding="utf-8"))
KNOWN = {model_id: family for model_id, family in IDS.items() if family in FAMILIES}
UNKNOWN = [model_id for model_id, family in IDS.items() if family not in FAMILIES]


@pytest.mark.sampled(keep=250)
@pytest.mark.parametrize("model_id", KNOWN)
def test_a_hugging_face_id_finds_its_family(model_id: str) -> None:
    assert explain(model_id).family.name == KNOWN[model_id]


@pytest.mark.parametrize("model_id", UNKNOWN)
def test_an_id_of_no_family_is_an_error_that_names_it(model_id: str) -> None:
    with pytest.raises(UnknownModelFamily, match=model_id):
        explain(model_id)


def test_the_table_of_ids_is_large() -> None:
    assert len(KNOWN) >= 500
    assert {family for family in FAMILIES if FAMILIES[family].patterns} == set(KNOWN.values())


def test_a_name_without_a_patterns_words_is_no_match_of_it() -> None:
    """So patterns are compiled for names that have their words alone."""
    patterns = {pattern for row in FAMILIES.values() for pattern in row.patterns}
    names = {model_ids.name_of(each) for each in IDS} | {
        model_ids.canonical(pattern).replace("-", between) for pattern in patterns for between in ("", "-", "_", "x")
    }
    for pattern in patterns:
        fits = {name for name in names if model_ids._compiled(pattern).search(name)}
        assert fits
        assert fits <= {name for name in names if all(word in name for word in model_ids._words(pattern))}


@pytest.mark.parametrize("spelled", [lambda dot: "p", lambda dot: "_", lambda dot: "-"], ids=["p", "_", "-"])
def test_a_version_may_be_spelled_in_every_way(spelled: Callable[[re.Match[str]], str]) -> None:
    """`V3.2`, `v3p2`, `V3_2`, `K2-5`. A `p` or `-` before a size (`2.5-0.5B`, `1.6B`) would be another number."""
    for model_id, family in KNOWN.items():
        name = model_id.rpartition("/")[2]
        changed = re.sub(r"(?<=\d)\.(?=\d(?![\dbB.]))", spelled, name)
        assert explain(changed).family.name == family, changed


@pytest.mark.parametrize(
    ("model_id", "family"),
    [
        ("accounts/fireworks/models/deepseek-v3p2", "deepseek_v32"),
        ("DeepSeek-V3_2-Exp", "deepseek_v31"),
        ("qwen3p5-9b", "qwen35"),
        ("qwen35_9b", "qwen35"),
        ("Kimi_K2-5", "kimi_k25"),
        ("gpt_oss_20b", "harmony"),
        ("gptoss-20b", "harmony"),
        ("minimaxm2", "minimax_m2"),
        ("llama-v3p1-8b-instruct", "llama3"),
        ("glm45-air", "glm45"),
        ("qwen2:0.5b", "qwen25"),
        ("qwen2-0.5b", "qwen25"),
        ("qwen3:8b-q4_K_M", "qwen3"),
        ("qwen3-4bit", "qwen3"),
        ("Llama-3-8B-4-bit", "llama3"),
    ],
)
def test_a_number_is_a_version_unless_it_counts_something(model_id: str, family: str) -> None:
    assert explain(model_id).family.name == family


@pytest.mark.parametrize(
    "model_id", ["Starling-LM-7B", "bling-1b", "huggyllama/llama-30b", "spring-1T", "Acme-Qwen30B"]
)
def test_words_match_at_word_borders_only(model_id: str) -> None:
    with pytest.raises(UnknownModelFamily):
        explain(model_id)


@pytest.mark.parametrize(
    "path",
    [
        "/data/mistral-cluster/{}",
        "/data/mistral/{}/",
        "models--Qwen--{}/snapshots/9c925d64d72725edaf899c6cb9c377fd0709d9c5",
        "/out/gemma-3/{}/checkpoint-1200",
        "/models/{}/UD-Q4_K_XL",
        "s3://llama-3/{}/FP8",
        r"D:\llama-3\{}.gguf",
        "hf.co/unsloth/{}-GGUF:Q4_K_M",
    ],
)
def test_of_a_path_only_the_part_that_names_the_model_counts(path: str) -> None:
    assert explain(path.format("Qwen3-8B")).family.name == "qwen3"


@pytest.mark.parametrize(
    ("model_id", "family"),
    [
        ("Team-ACE/ToolACE-2-Llama-3.1-8B", "pythonic"),
        ("acme/Llama-3.1-8B-ToolACE", "pythonic"),
        ("nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", "llama3"),
        ("nvidia/Llama-3_1-Nemotron-Ultra-253B-v1", "nemotron_super"),
        ("NousResearch/Hermes-2-Pro-Mistral-7B", "hermes"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "deepseek_r1"),
    ],
)
def test_of_several_names_the_closest_version_then_the_longest_then_the_latest_decides(
    model_id: str, family: str
) -> None:
    assert explain(model_id).family.name == family


@pytest.mark.parametrize(
    ("model_id", "family"),
    [("Step-3.7-Flash", "step35"), ("Qwen3.9-Max", "qwen35"), ("Kimi-K2.9", "kimi_k25"), ("GLM-4.9", "glm47")],
)
def test_a_newer_minor_version_is_read_as_the_latest_before_it_and_says_so(model_id: str, family: str) -> None:
    told = explain(model_id)
    assert told.family.name == family
    assert "the latest version before it that is known" in told.reason


@pytest.mark.parametrize(
    ("model_id", "family"),
    [
        ("TeichAI/Qwen3-8B-DeepSeek-v3.2-Speciale-Distill-GGUF", "qwen3"),
        ("BasedBase/GLM-4.5-Air-GLM-4.6-Distill", "glm45"),
        ("BasedBase/Qwen3-30B-A3B-Thinking-2507-Deepseek-v3.1-Distill", "qwen3_thinking"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek_r1"),
    ],
)
def test_a_distilled_model_is_read_as_the_one_named_first(model_id: str, family: str) -> None:
    """The base stands first, the teacher before `Distill`. DeepSeek's own distilled models carry DeepSeek's template."""
    assert explain(model_id).family.name == family


@given(st.text(max_size=80) | st.text("lingqwen3.5-_/:p bk", max_size=80), st.none() | st.text(max_size=20))
def test_any_text_is_a_family_or_unknown(model_id: str, template: str | None) -> None:
    with suppress(UnknownModelFamily):
        assert explain(model_id, template).family.name in FAMILIES


def test_the_reason_says_what_in_the_id_decided() -> None:
    told = explain("Qwen/Qwen3-Coder-30B-A3B-Instruct")
    assert told.reason == "the model id contains 'qwen3-coder'"
    assert "<tool_call>" in str(told)


def test_a_template_decides_where_the_id_says_nothing() -> None:
    told = explain("acme/finetune", "{{ '<minimax:tool_call>' }}")
    assert told.family.name == "minimax_m2"
    assert "chat template" in told.reason


def test_a_template_that_shows_another_familys_calls_wins_over_the_id() -> None:
    assert explain("acme/llama-3-tuned", "{{ '<|tool_calls_section_begin|>' }}").family.name == "kimi_k2_thinking"


def test_a_template_that_shows_the_ids_own_calls_leaves_the_id_in_charge() -> None:
    assert explain("Qwen/Qwen3-8B", "<tool_call>").family.name == "qwen3"


@pytest.mark.parametrize(
    ("model_id", "template", "family"),
    [
        ("acme/Qwen3-8B-agent", "<tool_call>\n<function=name>", "qwen35"),
        ("acme/Qwen3-8B-agent", "<tool_call>{{ name }}<arg_key>", "glm47"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "<tool_call>\n<function=name>", "qwen3_coder"),
        ("zai-org/GLM-4.5", "<tool_call>{{ name }}<arg_key>", "glm45"),
        ("XiaomiMiMo/MiMo-V2-Flash", "<tool_call><function=name>", "mimo"),
        ("inclusionAI/Ling-3.0-flash", "<tool_call>{{ name }}<arg_key>", "ling"),
        ("acme/Mistral-7B-tuned", "<think> <tool_call>", "hermes"),
        ("acme/Mistral-Small-3.2-think", "[THINK] [TOOL_CALLS]", "magistral"),
        ("moonshotai/Kimi-VL-A3B-Instruct", "<tool_call>", "hermes"),
        ("acme/qwen2.5-tuned", "<think> <tool_call>", "hermes"),
        ("acme/unnamed", "[THINK] [TOOL_CALLS]", "magistral"),
        ("acme/unnamed", "<tool_call> <function=", "qwen35"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "<｜tool▁calls▁begin｜> <think>", "deepseek_r1"),
    ],
)
def test_a_chat_template_outranks_a_name_and_its_most_telling_text_decides(
    model_id: str, template: str, family: str
) -> None:
    told = explain(model_id, template)
    assert told.family.name == family


def test_hunyuans_suffix_is_read_from_the_template() -> None:
    template = "<tool_calls:6124c78e>\n<tool_call:6124c78e>{{ name }}<tool_sep:6124c78e>"
    text = (
        "<think:6124c78e>why</think:6124c78e><tool_calls:6124c78e>\n<tool_call:6124c78e>now<tool_sep:6124c78e>\n"
        "</tool_call:6124c78e>\n</tool_calls:6124c78e>"
    )
    parser = Parser.for_family("hunyuan_v3", chat_template=template)
    kinds = [type(piece).__name__ for piece in parser.parse(text)]
    assert kinds == ["Reasoning", "CallStart", "CallArguments", "CallEnd"]


# Read in tokenizers (or said of them by a public server's parser): is any of the family's markers a special token?
SPECIAL = {
    "gemma4": True,  # google/gemma-4-31B-it
    "granite4": True,  # ibm-granite/granite-4.0, as the author of vLLM's parser says
    "hermes": True,  # some models of the format, as the author of vLLM's change says
    "internlm2": True,  # a copy of an InternLM2 tokenizer
    "jamba": True,  # vLLM's parser
    "lfm2": True,  # vLLM's parser
    "minicpm5": True,  # vLLM's parser
    "mistral_v11": True,  # mistral-common
    "magistral": True,  # mistral-common
    "hunyuan_v3": False,  # tencent/Hy3-preview
    "minimax_m2": False,  # MiniMaxAI/MiniMax-M2.5
    "qwen25": False,  # copies of Qwen2.5's tokenizer
    "qwen3": False,  # copies of Qwen3's tokenizer
    "qwen35": False,  # Qwen/Qwen3.5-397B-A17B
}


@pytest.mark.parametrize("family", SPECIAL)
def test_special_tokens_are_kept_exactly_where_tokenizers_make_markers_special(family: str) -> None:
    assert FAMILIES[family].needs_special_tokens is SPECIAL[family]


def test_every_row_says_what_it_rests_on() -> None:
    kinds = ("chat template", "public parser", "reference notes", "mistral-common", "the Harmony", "convention")
    assert all(row.source.startswith(kinds) for row in FAMILIES.values())


def test_a_name_can_be_forced_and_a_wrong_one_lists_the_right_ones() -> None:
    assert Parser.for_family("kimi_k3").family.name == "kimi_k3"
    with pytest.raises(UnknownModelFamily, match="kimi_k3"):
        Parser.for_family("kimi_k4")


def test_a_registered_row_is_found_by_id_and_by_name() -> None:
    row = Family("acme_plain", ("acme-chat",))
    register(row)
    try:
        assert explain("acme/Acme-Chat-7B").family is row
        assert family_named("acme_plain") is row
        assert Parser.for_model("acme/Acme-Chat-7B").parse("<think>") == [Text("<think>")]
    finally:
        del FAMILIES["acme_plain"]


@pytest.mark.parametrize(
    ("family", "prompt", "inside"),
    [
        ("qwen3", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", False),
        ("qwen3", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n", True),
        ("qwen3", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("qwen3", "<|im_start|>user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n", False),
        ("deepseek_v31", "<｜User｜>hi<｜Assistant｜></think>", False),
        ("deepseek_r1", "<｜User｜>hi<｜Assistant｜><think>\n", True),
        ("qwen3", "an unknown template <think>\n", True),
        ("qwen3", "an unknown template with <think> somewhere", False),
        ("magistral", "[INST]hi[/INST][THINK]So far", True),
        ("gemma4", "<|turn>model\n<|channel>thought\n<channel|>", False),
        ("harmony", "<|start|>assistant", False),
        ("plain", "anything", False),
    ],
)
def test_an_open_block_of_reasoning_is_read_off_the_prompt(family: str, prompt: str, inside: bool) -> None:
    assert reasoning_open(prompt, FAMILIES[family]) is inside
