"""How two texts are put together, held to the tokenizers library itself."""

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing

from smg_core.tokenizer.pairs import PAIR_OF_TEXTS, pair_frame
from smg_core.tokens import TokenIds

SPECIAL = [("[CLS]", 101), ("[SEP]", 102), ("[X]", 103)]


def template(pair: str) -> TemplateProcessing:
    return TemplateProcessing(single="$A", pair=pair, special_tokens=SPECIAL)


RULES = {
    "bert": BertProcessing(("[SEP]", 102), ("[CLS]", 101)),
    "roberta": RobertaProcessing(("[SEP]", 102), ("[CLS]", 101)),
    "template": template("[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"),
    "nothing between": template("$A:0 $B:0"),
    "tokens in front of each": template("[CLS]:1 [X]:0 $A:1 [SEP]:0 [SEP]:1 [X]:1 $B:0"),
    "sequence": Sequence([ByteLevel(trim_offsets=True), template("[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0")]),
    "bytes alone": ByteLevel(trim_offsets=True),
    "none": None,
}
WORDS = {f"w{at}": at for at in range(20)} | dict(SPECIAL) | {"?": 104}
TEXTS = st.lists(st.sampled_from(sorted(name for name in WORDS if name.startswith("w"))), max_size=6)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("rule", RULES)
@given(first=TEXTS, second=TEXTS)
def test_a_pair_has_the_ids_and_types_that_the_library_gives(rule, first, second):
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="?"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if RULES[rule] is not None:
        library.post_processor = RULES[rule]
    expected = library.encode(" ".join(first), " ".join(second))
    ids, types = pair_frame(library.to_str()).joined(
        TokenIds([WORDS[each] for each in first]), TokenIds([WORDS[each] for each in second])
    )
    assert list(ids) == expected.ids
    if rule not in ("none", "bytes alone"):
        assert list(types or [0] * len(ids)) == expected.type_ids
    else:
        assert not any(types)


@pytest.mark.parametrize(
    "pair",
    [
        [],
        [{"Sequence": {"id": "A"}}],
        [{"Sequence": {"id": "B"}}, {"Sequence": {"id": "A"}}],
        [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "B"}}, {"Sequence": {"id": "B"}}],
        [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "[NONE]"}}, {"Sequence": {"id": "B"}}],
        [{"Sequence": {"id": "A", "type_id": "x"}}, {"Sequence": {"id": "B"}}],
        [{}, 5],
        "A B",
    ],
)
def test_a_rule_that_makes_no_pair_is_an_error(pair):
    with pytest.raises(ValueError):
        pair_frame(json.dumps({"post_processor": {"type": "TemplateProcessing", "pair": pair, "special_tokens": {}}}))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda each: (
            st.lists(each) | st.dictionaries(st.sampled_from(["type", "processors", "pair", "cls", "sep"]), each)
        ),
    )
)
def test_any_post_processor_is_a_frame_or_a_value_error(node):
    try:
        assert pair_frame(json.dumps({"post_processor": node})).size >= 0
    except ValueError:
        return


def test_no_post_processor_is_one_text_behind_the_other():
    assert pair_frame("{}") == PAIR_OF_TEXTS
