"""A document's pieces are its text, with its pictures where they stand in it, and count as one part of the request."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.pipeline.prompt.documents import ReadDocument, ReadDocuments, with_documents
from smg_core.pipeline.prompt.media import media_of
from smg_core.request import File, GenerationRequest, Image, MediaSource, Message, Text
from smg_core.wire.documents import document_text

PLACED = st.text(max_size=12).flatmap(
    lambda text: st.tuples(
        st.just(text), st.lists(st.tuples(st.integers(0, len(text)), st.binary(min_size=1, max_size=3)), max_size=4)
    )
)


@given(st.lists(PLACED, min_size=1, max_size=3), st.integers(0, 12))
def test_the_pieces_of_a_document_are_its_text_and_one_part_of_the_request(
    documents: list[tuple[str, list[tuple[int, bytes]]]], most: int
) -> None:
    known, parts = ReadDocuments(), []
    for text, pictures in documents:
        file = File(MediaSource(data=b"%PDF-"), title="t", cache={"type": "ephemeral"})
        known.add(file.source, ReadDocument(text, tuple(sorted(pictures, key=lambda each: each[0]))), pictured=True)
        parts += [file, Image(MediaSource(data=b"own"))]
    known.most = most
    request = GenerationRequest(id="r", model="m", messages=(Message("user", tuple(parts)),))
    found = known.found_in((part.source for part in parts if isinstance(part, File)), pictured=True)
    made = with_documents(request, found).messages[0].parts

    whole = "".join(document_text(text, "t") for text, _ in documents)
    assert "".join(part.text for part in made if isinstance(part, Text)) == whole
    assert all(part.text for part in made if isinstance(part, Text))
    assert sum(part.cache is not None for part in made if isinstance(part, Text)) == len(documents)
    items = media_of(with_documents(request, found).messages)
    own = [item.param for item in items if item.source.data == b"own"]
    assert own == [f"messages[0].parts[{2 * place + 1}]" for place in range(len(documents))]
    shown = sum(len(each.pictures) for each in found.values())
    assert shown == len(items) - len(own) == min(most, sum(len(pictures) for _, pictures in documents))
    assert {item.param for item in items} <= {f"messages[0].parts[{place}]" for place in range(len(parts))}


def test_fewer_pictures_are_shown_each_time_and_a_scan_keeps_one() -> None:
    source = MediaSource(data=b"%PDF-")
    for text, told in (("text", [8, 4, 2, 1, 0]), ("", [8, 4, 2, 1])):
        known = ReadDocuments()
        known.add(source, ReadDocument(text, tuple((0, b"x") for _ in range(16))), pictured=True)
        seen = []
        known.found_in([source], pictured=True)
        while known.show_fewer():
            seen.append(known.most)
            known.found_in([source], pictured=True)
        assert seen == told
