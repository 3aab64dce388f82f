"""Which parts of a request are media, in which order the prompt has them, and what is refused."""

import pytest

from smg_core.errors import UnsupportedParameter
from smg_core.pipeline.prompt.media import MediaItem, media_of, refuse_mixture, refuse_unless_taken, suggests_media
from smg_core.request import (
    Audio,
    File,
    Image,
    MediaSource,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

BOTH = frozenset({"image", "video"})


def source(name: str) -> MediaSource:
    return MediaSource(url=f"https://example.com/{name}")


def image(name: str, detail: str = "auto") -> Image:
    return Image(source(name), detail)  # type: ignore[arg-type]


def found(*messages: Message) -> list[tuple[str, str, str]]:
    """Kind, name and place of all media."""
    items = media_of(messages)
    return [(item.kind, (item.source.url or "").rpartition("/")[2], item.param) for item in items]


def test_a_conversation_of_text_has_no_media() -> None:
    call = Message("assistant", (ToolCall("c", "f", "{}"),))
    result = Message("tool", (ToolResult("c", (Text("done"),)),))

    assert (
        found(Message("user", (Text("hi"),), content_is_text=True), Message("user", (Text("hi"),)), call, result) == []
    )


def test_media_come_in_the_order_of_the_messages_with_their_places() -> None:
    first = Message("user", (Text("a"), image("1"), Text("b"), Video(source("2"))))
    second = Message("user", (Audio(source("3")), File(source("4"))))

    assert found(first, Message("assistant", (Text("ok"),)), second) == [
        ("image", "1", "messages[0].parts[1]"),
        ("video", "2", "messages[0].parts[3]"),
        ("audio", "3", "messages[2].parts[0]"),
        ("file", "4", "messages[2].parts[1]"),
    ]


def test_a_tools_picture_has_its_place_in_the_tools_message() -> None:
    result = Message("tool", (ToolResult("c", (Text("seen"), image("1"))),))

    assert found(Message("user", (Text("x"),)), result) == [("image", "1", "messages[1].parts[0].content[1]")]


def test_tool_results_within_a_message_come_before_its_own_content_as_templates_render_them() -> None:
    mixed = Message("user", (image("own"), ToolResult("c", (image("1"), image("2"))), ToolResult("d", (image("3"),))))

    assert found(mixed) == [
        ("image", "1", "messages[0].parts[1].content[0]"),
        ("image", "2", "messages[0].parts[1].content[1]"),
        ("image", "3", "messages[0].parts[2].content[0]"),
        ("image", "own", "messages[0].parts[0]"),
    ]


def test_detail_is_kept() -> None:
    (item,) = media_of([Message("user", (image("1", "low"),))])

    assert item == MediaItem("image", source("1"), "messages[0].parts[0]", "low")


@pytest.mark.parametrize(("kind", "name"), [("audio", "audio"), ("file", "files")])
def test_the_first_item_that_is_not_taken_is_named(kind: str, name: str) -> None:
    items = [MediaItem("image", source("1"), "a"), MediaItem(kind, source("2"), "b"), MediaItem(kind, source("3"), "c")]

    with pytest.raises(UnsupportedParameter, match=f"'m' does not take {name}") as refusal:
        refuse_unless_taken(items, "m", BOTH)
    assert refusal.value.param == "b"


@pytest.mark.parametrize(
    ("file", "named"),
    [
        (MediaSource(url="data:application/pdf;base64,AAAA"), True),
        (MediaSource(url="DATA:Application/PDF,%25PDF-"), True),
        (MediaSource(url="data:application/octet-stream;base64,JVBERi0xLjc="), True),
        (MediaSource(url="data:,%PDF-1.7"), True),
        (MediaSource(url="data:,%25PDF-1.7"), True),
        (MediaSource(url="https://a.example/b.PDF?c=d#e"), True),
        (MediaSource(data=b"%PDF-1.7"), True),
        (MediaSource(data=b"x", media_type="application/pdf"), True),
        (MediaSource(url="data:application/zip;base64,UEsDBA=="), False),
        (MediaSource(url="data:"), False),
        (MediaSource(url="https://a.example/b.zip?c.pdf"), False),
        (MediaSource(data=b"PK"), False),
        (MediaSource(file_id="file-1"), False),
        (MediaSource(text="x"), False),
    ],
)
def test_a_pdf_is_refused_as_one_with_what_can_be_sent_instead(file: MediaSource, named: bool) -> None:
    with pytest.raises(UnsupportedParameter, match="'m' does not take files") as refusal:
        refuse_unless_taken([MediaItem("file", file, "a")], "m", BOTH)
    assert ("PDF is not read here, so send the document's text" in refusal.value.message) is named


def test_uploaded_files_cannot_be_referred_to() -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        refuse_unless_taken([MediaItem("image", MediaSource(file_id="file-1"), "a")], "m", BOTH)
    assert refusal.value.param == "a"


def test_what_is_taken_passes() -> None:
    refuse_unless_taken([MediaItem("image", source("1"), "a"), MediaItem("video", source("2"), "b")], "m", BOTH)


def test_one_kind_may_always_come_alone_and_several_only_together_where_that_is_said() -> None:
    pictures = [MediaItem("image", source("1"), "a"), MediaItem("image", source("2"), "b")]
    mixed = [*pictures, MediaItem("video", source("3"), "c")]
    refuse_mixture(pictures, frozenset())
    refuse_mixture(mixed, BOTH)
    refuse_mixture([], frozenset())

    with pytest.raises(UnsupportedParameter, match="videos and images in one request") as refusal:
        refuse_mixture(mixed, frozenset({"image", "audio"}))
    assert refusal.value.param == "c"


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        ({"model_type": "llama"}, ["config.json", "tokenizer.json"], False),
        ({}, [], False),
        ({"vision_config": {}}, [], True),
        ({"visual": {}}, [], True),
        ({"audio_token_index": 3}, [], True),
        ({"model_type": "phi3_v"}, ["preprocessor_config.json"], True),
    ],
)
def test_a_models_files_suggest_media_or_not(config: dict[str, object], files: list[str], expected: bool) -> None:
    assert suggests_media(config, files) is expected
