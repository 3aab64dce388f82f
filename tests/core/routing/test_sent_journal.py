"""The journal of what was sent: what was written is read, and what is broken is left out."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from smg_core.routing.sent_journal import SentRecord, sent_frame, sent_head, sent_journal_of, still_there

RECORDS = st.lists(
    st.builds(
        SentRecord,
        model=st.sampled_from(["", "m", "a/b", "\u00fc"]),
        role=st.sampled_from(["regular", "prefill"]),
        block=st.integers(1, 4096),
        worker=st.sampled_from(["", "w", "grpc://gpu-0:1", "\u00fc"]),
        rank=st.integers(0, 8),
        keys=st.binary(max_size=40).map(lambda data: data[: len(data) // 8 * 8]),
    ),
    max_size=4,
)
FRAMES = st.lists(RECORDS, max_size=4)
SECRETS = st.integers(0, 2**64 - 1)


def written(secret: int, frames: list[list[SentRecord]]) -> bytes:
    return sent_head(secret) + b"".join(map(sent_frame, frames))


@given(SECRETS, FRAMES)
def test_what_was_written_is_read(secret: int, frames: list[list[SentRecord]]) -> None:
    found = sent_journal_of(written(secret, frames))

    assert found is not None
    assert (found.secret, found.whole) == (secret, True)
    assert found.records == [each for frame in frames for each in frame]


@given(SECRETS, FRAMES, st.integers(0, 10_000))
def test_a_file_that_was_cut_gives_the_frames_that_are_whole(
    secret: int, frames: list[list[SentRecord]], cut: int
) -> None:
    data = written(secret, frames)
    cut %= len(data)
    found = sent_journal_of(data[:cut])
    whole = [count for count in range(len(frames) + 1) if len(written(secret, frames[:count])) <= cut]

    if not whole:
        assert found is None
    else:
        assert found is not None
        assert found.records == [each for frame in frames[: whole[-1]] for each in frame]
        assert found.whole == (len(written(secret, frames[: whole[-1]])) == cut)


@given(SECRETS, FRAMES, st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=examples(200))
def test_a_byte_that_was_changed_is_never_taken_for_a_record(
    secret: int, frames: list[list[SentRecord]], at: int, change: int
) -> None:
    data = bytearray(written(secret, frames))
    data[at % len(data)] ^= change
    found = sent_journal_of(bytes(data))

    if found is not None:
        true = [each for frame in frames for each in frame]
        assert found.secret == secret
        assert not found.whole
        assert found.records == true[: len(found.records)]


@given(st.binary(max_size=60))
def test_other_files_are_none(data: bytes) -> None:
    assert sent_journal_of(data) is None


@given(RECORDS)
def test_a_record_without_keys_makes_void_what_its_worker_was_sent_before_and_nothing_else(
    records: list[SentRecord],
) -> None:
    expected: list[SentRecord] = []
    for each in records:
        if each.keys:
            expected.append(each)
        else:
            void = (each.model, each.role, each.worker)
            expected = [one for one in expected if (one.model, one.role, one.worker) != void]

    assert still_there(records) == expected
