"""Runs the code of models in containers: fulfils the role of the tools that run here (edge).

A request that names no container has one of its own, for all calls of its response and of the turns that follow it. Above:
`work`; the tools. Below: the containers of tenants.
"""

import asyncio
import mimetypes
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from smg_core.built_in import BuiltIn, FaultCode
from smg_core.containers.openai import copied_files
from smg_core.errors import InvalidRequest, NotFound, SmgError
from smg_core.files.types import KeptFile
from smg_core.request import Caller
from smg_core.serving.services import Services
from smg_core.tools.code_runs import CodeAnswer, MadeFile

if TYPE_CHECKING:
    from smg_core.containers.interpreter.running import Stopped
    from smg_core.containers.kept import CodeRun
    from smg_core.containers.records import CodeContainer, ContainerFile
    from smg_core.containers.work import ContainerRooms

__all__ = ["ContainerCode"]

_RESPONSES = 10_000  # responses whose containers are known
_KEPT_FILES = 20  # files of one call that are kept as files of the client
_LOST = "The interpreter of this container was begun anew: what earlier code had left in memory is gone. Its files are there."
_CUT = "The output was longer than it may be, and is cut."
_WHY: "dict[Stopped, tuple[str, FaultCode]]" = {
    "time": ("it took too long", "out_of_time"),
    "memory": ("it wanted more memory than it may have", "failed"),
    "trap": ("it ended the interpreter, as an endless recursion does", "failed"),
    "files": ("it wrote more or larger files than it may; what it wrote was removed", "failed"),
    "lost": ("the interpreter ended", "failed"),
}


class ContainerCode:
    """The `CodeRuns` of one gateway. `rooms` gives what there is, which may have to be loaded first."""

    def __init__(self, services: Services, rooms: "Callable[[], Awaitable[ContainerRooms]]") -> None:
        self._services, self._rooms = services, rooms
        self._of_responses: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._making = asyncio.Lock()

    async def check(self, caller: Caller, asked: BuiltIn) -> None:
        """Raise NotFound for a container that is not there, and InvalidRequest for such a file."""
        rooms = await self._rooms()
        if asked.container:
            await rooms.containers.find(caller, asked.container)
        for each in asked.files:
            try:
                await rooms.files.find(caller.tenant, each)
            except SmgError as error:
                raise InvalidRequest(error.message, param="tools", code="file_not_found") from None

    async def run(self, caller: Caller, asked: BuiltIn, code: str, request_id: str) -> CodeAnswer:
        """Run code in the container that is asked for, or in that of the response."""
        rooms = await self._rooms()
        id = asked.container or await self._own(caller, asked, request_id, rooms)
        if asked.files:
            async with self._making:
                await self._put_files(caller, asked, id, rooms)
        done = await rooms.containers.run(caller, id, code)
        container = await rooms.containers.find(caller, id)
        files = await self._files(caller, done.files, rooms) if asked.keeps else [_made(each) for each in done.files]
        return _answer(container, done, files)

    async def _own(self, caller: Caller, asked: BuiltIn, request_id: str, rooms: "ContainerRooms") -> str:
        """The container of a response: that of an earlier turn where it is there, else one that is made with the first call."""
        key = caller.tenant, request_id
        async with self._making:
            if (known := self._of_responses.get(key)) is not None:
                return known
            made = await self._earlier(caller, asked, rooms)
            if made is None:
                made = await rooms.containers.create(caller, self._services.ids("cntr_"), "auto")
            self._of_responses[key] = made.id
            while len(self._of_responses) > _RESPONSES:
                self._of_responses.popitem(last=False)
        return made.id

    @staticmethod
    async def _earlier(caller: Caller, asked: BuiltIn, rooms: "ContainerRooms") -> "CodeContainer | None":
        """The container of an earlier turn; None where it has expired, or was never this caller's."""
        try:
            return await rooms.containers.find(caller, asked.earlier) if asked.earlier else None
        except NotFound:
            return None

    @staticmethod
    async def _put_files(caller: Caller, asked: BuiltIn, id: str, rooms: "ContainerRooms") -> None:
        """Copy the files of the request that do not lie in the container. What code has made of one stays as it is."""
        there = {each.path.rpartition("/")[2] for each in await rooms.containers.files(caller, id)}
        wanted = [(each, (await rooms.files.find(caller.tenant, each)).filename) for each in asked.files]
        missing = tuple(each for each, name in wanted if name not in there)
        await copied_files(rooms.receiver, rooms.files, rooms.containers, caller, id, missing)

    async def _files(
        self, caller: Caller, made: "tuple[ContainerFile, ...]", rooms: "ContainerRooms"
    ) -> list[MadeFile]:
        """The files that code has made, kept as files of the client."""
        kept = []
        for each in made[:_KEPT_FILES]:
            now, config = self._services.clock.time(), self._services.live.config.batches
            name = each.path.rpartition("/")[2]
            file = KeptFile(
                id=self._services.ids("file-"),
                filename=name,
                purpose="user_data",
                bytes=0,
                created_at=now,
                expires_at=now + config.file_s,
                media_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
            )
            with rooms.receiver.spools.place(caller):
                spool = await asyncio.to_thread(rooms.receiver.spools.new)
                try:
                    with await rooms.containers.read(caller, each) as source:
                        while piece := await asyncio.to_thread(source.read, 1 << 20):
                            await asyncio.to_thread(spool.write, piece)
                    found = await rooms.files.add(caller, file, spool)
                finally:
                    spool.close()
            kept.append(MadeFile(found.id, each.path, found.bytes))
        return kept


def _made(file: "ContainerFile") -> MadeFile:
    return MadeFile(file.id, file.path, file.file.bytes)


def _answer(container: "CodeContainer", done: "CodeRun", files: list[MadeFile]) -> CodeAnswer:
    ran = done.ran
    notes = [_LOST] if ran.lost else []
    stopped: FaultCode | None = None
    if ran.stopped is not None:
        why, stopped = _WHY[ran.stopped]
        notes.append(f"The code was stopped: {why}. What code had left in memory is gone.")
    if ran.cut:
        notes.append(_CUT)
    until = container.used_at + container.minutes * 60
    return CodeAnswer(
        *(container.id, ran.stdout, ran.stderr, ran.error, tuple(files), tuple(notes), stopped), expires_at=until
    )
