"""What is brought into a request before its prompt is rendered, by whom, and what of it is left as it came."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import pytest
from tests.core.pipeline.prompt.test_prepare import model

from smg_core.errors import InvalidRequest
from smg_core.hooks import SilentObserver
from smg_core.pipeline.answer.trace import Trace
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.pipeline.calls.passing_media import ContentServices, brings_content
from smg_core.pipeline.prompt.kept_files import FilesInUse
from smg_core.pipeline.prompt.media import MediaItem
from smg_core.request import Caller, GenerationRequest, Image, MediaSource, Message, Text, ToolResult

pytestmark = pytest.mark.anyio

HERE = Image(MediaSource(url="DATA:image/png;base64,AA=="))
BYTES = Image(MediaSource(data=b"bytes"))
AWAY = Image(MediaSource(url="https://pictures.example/a.png"))
KEPT = Image(MediaSource(file_id="file-1"))


@attrs.define
class Fetching:
    """Media by their addresses, and what was asked for."""

    asked: list[str | None] = attrs.field(factory=list)

    async def fetched(self, items: Sequence[MediaItem], *, tenant: str) -> Sequence[MediaSource]:
        self.asked += [item.source.url for item in items]
        return [MediaSource(data=(item.source.url or "").encode()) for item in items]


@pytest.fixture
async def executor() -> AsyncIterator[FairExecutor]:
    made = FairExecutor(1)
    yield made
    made.close()


def asked(*parts: Any) -> GenerationRequest:
    return GenerationRequest(id="r", model="m", messages=(Message("user", parts),))


async def brought(request: GenerationRequest, services: ContentServices, executor: FairExecutor) -> GenerationRequest:
    bring = brings_content(services, executor)
    return await bring(request, Trace(0.0, SilentObserver()), model(tokenizer=None), ())


async def test_what_is_at_an_address_is_fetched_and_what_the_request_has_itself_is_left(executor: FairExecutor) -> None:
    service = Fetching()
    found = await brought(asked(HERE, BYTES, AWAY), ContentServices(media=service), executor)
    assert service.asked == [AWAY.source.url]
    here, data, away = found.messages[0].parts
    assert (here, data) == (HERE, BYTES)
    assert isinstance(away, Image)
    assert away.source.data == b"https://pictures.example/a.png"


async def test_what_is_in_the_result_of_a_tool_is_fetched_too(executor: FairExecutor) -> None:
    found = await brought(asked(ToolResult("call", (Text("seen"), AWAY))), ContentServices(media=Fetching()), executor)
    (result,) = found.messages[0].parts
    assert isinstance(result, ToolResult)
    assert isinstance(result.content[1], Image)
    assert result.content[1].source.data


async def test_a_request_without_addresses_is_returned_as_it_is(executor: FairExecutor) -> None:
    request = asked(Text("Hello"), HERE)
    assert await brought(request, ContentServices(media=Fetching()), executor) is request


async def test_where_files_are_brought_by_nobody_a_part_that_names_one_is_left(executor: FairExecutor) -> None:
    request = asked(KEPT)
    assert await brought(request, ContentServices(), executor) is request


async def test_a_kept_file_is_asked_for_by_its_caller_where_files_are_brought(executor: FairExecutor) -> None:
    named: list[str | None] = []

    async def read(caller: Caller, items: Sequence[MediaItem]) -> FilesInUse:
        named.extend(item.source.file_id for item in items)
        raise InvalidRequest("There is no such file.")

    with pytest.raises(InvalidRequest):
        await brought(asked(KEPT), ContentServices(files=read), executor)
    assert named == ["file-1"]
