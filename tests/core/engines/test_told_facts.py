"""Numbers that an engine tells of itself when it joins: one that cannot be is one that was not told."""

from functools import partial

import pytest

from smg_core.engines.base import EngineFacts, ModelInfo
from smg_core.tokens import MOST_TOKENS_REPORTED

TOLD = [
    (partial(ModelInfo, "m"), "context_length"),
    (partial(ModelInfo, "m"), "vocab_size"),
    (partial(EngineFacts, "d"), "context_length"),
    (partial(EngineFacts, "d"), "block_size"),
]


@pytest.mark.parametrize(("record", "name"), TOLD)
@pytest.mark.parametrize("value", [-1, -(2**70), MOST_TOKENS_REPORTED + 1, None])
def test_a_number_of_tokens_that_cannot_be_was_not_told(
    record: partial[ModelInfo | EngineFacts], name: str, value: int | None
) -> None:
    assert getattr(record(**{name: value}), name) == 0
    assert getattr(record(**{name: 4096}), name) == 4096
