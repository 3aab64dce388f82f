"""The embedded engine's neutral side holds media against the prompt, an item at a time."""

from collections.abc import Callable
from typing import Any

import pytest

from smg_engine_contract import engine_pb2 as pb
from smg_simulator.codecs.neutral_media import read_neutral_media
from smg_simulator.engine.media import check_media, describe_media, media_spans
from smg_simulator.engine.refusal import Refused

IMAGE = 9
IDS = [1, 7, IMAGE, IMAGE, 8, 2, IMAGE, 3]


def items() -> list[Any]:
    """Two pictures of 8 and 4 patches; the first placeholder includes its markers."""

    def item(start: int, length: int, tokens: int, rows: int, grid: tuple[int, ...]) -> Any:
        return pb.Media(
            kind=pb.MEDIA_KIND_IMAGE,
            hash=bytes([start]) * 32,
            placeholder=pb.Span(offset=start, length=length),
            embeddings=[pb.Span(offset=start + (length - tokens) // 2, length=tokens)],
            token_id=IMAGE,
            tensors=[
                pb.Tensor(name="pixel_values", dtype="float32", shape=[rows, 5], data=bytes(rows * 20)),
                pb.Tensor(
                    name="image_grid_thw",
                    dtype="int64",
                    shape=[1, 3],
                    data=b"".join(each.to_bytes(8, "little") for each in grid),
                ),
            ],
        )

    return [item(1, 4, 2, 8, (1, 2, 4)), item(6, 1, 1, 4, (1, 2, 2))]


def test_items_that_fit_are_taken_described_and_named_in_the_cache() -> None:
    seen = read_neutral_media(items())
    check_media(seen, IDS, merge=2)

    assert describe_media(seen).count("I see 1 image") == 2
    assert media_spans(seen) == ((1, 4, "01" * 32), (6, 1, "06" * 32))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda item: item.ClearField("kind"), "no kind"),
        (lambda item: setattr(item, "hash", b"short"), "a hash of 5 bytes"),
        (lambda item: item.ClearField("tensors"), "tensors called"),
        (lambda item: setattr(item.tensors[1], "name", "pixel_values"), "tensors called"),
        (lambda item: setattr(item.tensors[0], "data", bytes(159)), "159 bytes for 8x5 float32"),
        (lambda item: setattr(item.tensors[0], "dtype", "complex64"), "unknown dtype"),
        (lambda item: setattr(item.embeddings[0], "offset", 4), "do not fit the placeholder"),
        (lambda item: setattr(item.embeddings[0], "length", 0), "do not fit the placeholder"),
        (lambda item: setattr(item.embeddings[0], "offset", 1), "tokens other than 9"),
        (lambda item: setattr(item.embeddings[0], "length", 1), "2 tokens 9 for 1 embeddings"),
        (lambda item: setattr(item.placeholder, "length", 99), "does not fit the prompt"),
        (lambda item: item.placeholder.CopyFrom(pb.Span(offset=1, length=6)), "tokens 9 for 2 embeddings"),
        (lambda item: item.tensors[0].shape.__setitem__(slice(None), [4, 10]), "4 rows for grids of 8 patches"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(change: Callable[[Any], Any], sentence: str) -> None:
    media = items()
    change(media[0])

    with pytest.raises(Refused, match=sentence):
        check_media(read_neutral_media(media), IDS, merge=2)


def test_a_token_of_media_outside_of_all_items_is_refused() -> None:
    with pytest.raises(Refused, match="outside of the placeholders"):
        check_media(read_neutral_media(items()[:1]), IDS, merge=2)
