"""Documents are read in processes: whose turn it is, what is kept, and where it ends."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pdf_files import bomb, hoard, locked, pdf, pictured, scan
from tests.shared import PATIENCE

from smg_multimodal.decoding.pdf import DocumentContents, DocumentLimits, pdf_contents
from smg_multimodal.processes.documents import DocumentMemory, DocumentReader
from smg_multimodal.processes.workers import DecoderProcesses
from smg_multimodal.records.errors import MediaBusy, MediaError, MediaTooLarge

LIMITS = DocumentLimits()


@pytest.fixture(scope="module")
def apart() -> Iterator[DecoderProcesses]:
    made = DecoderProcesses(idle=1, document_seconds=60)
    yield made
    made.close()
    assert made.processes == []


@pytest.fixture
async def reader() -> AsyncIterator[DocumentReader]:
    made = DocumentReader(limits=LIMITS, processes=1, seconds=PATIENCE, wait_seconds=PATIENCE)
    yield made
    made.close()


@pytest.mark.full
def test_a_process_gives_the_text_and_the_errors_that_reading_here_gives(apart: DecoderProcesses) -> None:
    for data in (pdf("One\nline", "", "and é"), locked("x", "y"), scan(), b"%PDF-1.4", b"x"):
        told = []
        for read in (lambda data: pdf_contents(data, LIMITS).text, lambda data: apart.document(data, LIMITS).text):
            try:
                told.append(("text", read(data)))
            except MediaError as error:
                told.append((type(error).__name__, str(error)))
        assert told[0] == told[1]
    assert len(apart.processes) == 1


def test_pages_are_apart_by_an_empty_line_and_those_without_text_are_left_out() -> None:
    assert pdf_contents(pdf("a", "", " b "), LIMITS).text == "a\n\nb"


def test_what_takes_too_long_is_stopped() -> None:
    processes = DecoderProcesses(document_seconds=0.1)
    with pytest.raises(MediaTooLarge, match=r"more than 0\.1 s"):
        processes.document(bomb(4), LIMITS)
    assert processes.processes == []
    processes.close()


@pytest.mark.full
def test_what_takes_too_much_memory_is_refused(apart: DecoderProcesses) -> None:
    with pytest.raises(MediaTooLarge, match="takes more memory"):
        apart.document(hoard(1, b"<"), DocumentLimits(max_memory=1024 * 1024))
    assert apart.document(pdf("the next"), LIMITS).text == "the next"


@pytest.mark.full
def test_where_a_process_ends_over_a_picture_the_text_and_the_pictures_before_it_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = DecoderProcesses._asked

    def ends(processes: DecoderProcesses, work: Any) -> Iterator[Any]:
        answers = asked(processes, work)
        yield next(answers)
        yield next(answers)
        answers.close()
        raise MediaTooLarge("late")

    data = pictured(("One.", [(40, 40), (41, 41)]), ("Two.", [(42, 42)]))
    processes = DecoderProcesses(document_seconds=PATIENCE)
    whole = processes.document(data, LIMITS, pictures=True)
    assert (whole.text, [each.at for each in whole.pictures], whole.unseen) == ("One.\n\nTwo.", [4, 4, 10], 0)
    monkeypatch.setattr(DecoderProcesses, "_asked", ends)
    assert processes.document(data, LIMITS, pictures=True) == DocumentContents(whole.text, whole.pictures[:1], 2)
    assert processes.processes == []
    processes.close()


@pytest.mark.full
@pytest.mark.anyio
async def test_a_document_that_comes_again_is_not_read_again(
    reader: DocumentReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pdf("the same")
    assert await asyncio.gather(*(reader.contents(data) for _ in range(5))) == [DocumentContents("the same")] * 5
    reader.processes.close()  # from here on nothing can be read
    monkeypatch.setattr("smg_multimodal.processes.workers.subprocess.Popen", None)
    assert (await reader.contents(data)).text == "the same"
    assert reader.memory.size == len("the same")


@pytest.mark.anyio
async def test_one_that_waits_too_long_is_told_to_come_again() -> None:
    reader = DocumentReader(limits=LIMITS, processes=1, seconds=PATIENCE, wait_seconds=0.01)
    place = await reader._places.take("somebody")
    with pytest.raises(MediaBusy, match="wait too long"):
        await reader.contents(pdf("later"))
    reader._places.release(place)
    reader.close()


@pytest.mark.full
@pytest.mark.anyio
async def test_one_that_nobody_waits_for_any_more_is_not_begun(reader: DocumentReader) -> None:
    place = await reader._places.take("somebody")
    data = pdf("nobody's")
    first, second = (asyncio.ensure_future(reader.contents(data)) for _ in range(2))
    while not reader._places.allotment.waiting:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert reader._places.allotment.waiting == 1
    second.cancel()
    await asyncio.wait([second])
    third = asyncio.ensure_future(reader.contents(data))
    reader._places.release(place)
    assert (await third).text == "nobody's"
    assert not reader._running
    assert not reader._places.allotment.used


@pytest.mark.full
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 12))), st.integers(0, 30))
def test_the_memory_keeps_the_newest_within_its_bound(puts: list[tuple[int, int]], most: int) -> None:
    memory = DocumentMemory(most)
    kept: dict[bytes, str] = {}
    for name, length in puts:
        digest, text = hashlib.sha256(bytes([name])).digest(), str(name) * length
        memory.put(digest, DocumentContents(text))
        if len(text) <= most:
            kept.pop(digest, None)
            kept[digest] = text
            while sum(map(len, kept.values())) > most:
                del kept[next(iter(kept))]
        assert memory.size == sum(map(len, kept.values())) <= most
    assert {digest: found.text for digest in kept if (found := memory.get(digest))} == kept
