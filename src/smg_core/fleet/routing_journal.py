"""Stores on disk what policies know of sent prompts, and restores it at the next start (edge).

Two files: one that is written to, and the one before; when the first is full it becomes the second. They are read before the
first worker joins, in a thread, and told to the policies of their models, a little at a time. A file that cannot be read is left
out, with a line in the log. Above: stored.history. Below: routing's journal and policies.
"""

import asyncio
import logging
import os
from array import array
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

from smg_core.clock import CallLater
from smg_core.routing import Policies, Policy, Remembering
from smg_core.routing.sent_journal import SentJournal, SentRecord, sent_frame, sent_head, sent_journal_of, still_there
from smg_core.routing.settings import RoutingConfig

__all__ = ["SentKeeping", "keeping_sent"]

log = logging.getLogger("smg.routing")

_NOTHING: list[tuple[str, int, Sequence[int]]] = []
_SLICE = 512
_KEY_BYTES = 8
_INDEX_BYTES = 140  # that a key takes in an index, at least


@asynccontextmanager
async def keeping_sent(
    settings: RoutingConfig, policies: Policies, rng: Random, call_later: CallLater, process: int = 0
) -> AsyncIterator[None]:
    """Have what `policies` send kept, as `settings` say, until the end. `process`: the number of this one, from 0: each has files
    of its own."""
    if settings.sent_file is None:
        yield
        return
    path = Path(settings.sent_file).expanduser()
    kept = SentKeeping(
        path if not process else path.with_name(f"{path.name}.{process}"), settings, policies, call_later
    )
    await kept.open(rng)
    task = asyncio.create_task(kept.run(), name="keep what was sent")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await kept.close()


class SentKeeping:
    """The files of one process. `path` is the one that is written to; the one before has ".old" behind its name."""

    def __init__(self, path: Path, settings: RoutingConfig, policies: Policies, call_later: CallLater) -> None:
        self._path = path
        self._before = path.with_name(f"{path.name}.old")
        self._most = settings.sent_bytes // 2
        self._interval_s = settings.sent_interval_s
        self._block = settings.block_tokens
        self._most_keys = settings.index_bytes // _INDEX_BYTES
        self._policies = policies
        self._call_later = call_later
        self._secret = 0
        self._size = 0
        self._made: dict[tuple[str, str], Remembering] = {}
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="smg-sent")  # one, so that files are written in order

    async def open(self, rng: Random) -> None:
        """Read the files, and tell the policies of the models in it what they had sent: no more than an index can hold."""
        fresh = rng.getrandbits(64)
        self._secret, records = await asyncio.get_running_loop().run_in_executor(self._disk, self._read, fresh)
        self._policies.on_made = self._policy_made
        left, latest = self._most_keys, list[SentRecord]()
        for record in reversed(records):
            left -= len(record.keys) // _KEY_BYTES
            if left < 0:
                break
            if record.block == self._block:
                latest.append(record)
        for record in reversed(latest):
            policy = self._policies.of(record.model, record.role)
            if isinstance(policy, Remembering):
                await self._recall(policy, record)

    def _read(self, fresh: int) -> tuple[int, list[SentRecord]]:
        """The secret and the records of both files; a new one is begun where there is none that can be gone on with."""
        before, last = self._journal(self._before), self._journal(self._path)
        found = [each for each in (before, last) if each is not None]
        secret = found[-1].secret if found else fresh
        if last is not None and last.whole:
            self._size = self._path.stat().st_size
        else:
            self._begin(secret, keep=last is not None)
        return secret, still_there([record for each in found if each.secret == secret for record in each.records])

    def _journal(self, path: Path) -> SentJournal | None:
        """What a file says; None where there is none, or none that can be read."""
        try:
            journal = sent_journal_of(path.read_bytes()) if path.stat().st_size <= 2 * self._most else None
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s cannot be read and is left out: %s", path, error)
            return None
        if journal is None or not journal.whole:
            log.warning("%s is not as it was written: %s is left out", path, "its end" if journal else "it")
        return journal

    def _begin(self, secret: int, *, keep: bool = True) -> None:
        """Begin a new file. With `keep` the one that was written to is from now on the one before."""
        head, anew = sent_head(secret), self._path.with_name(f"{self._path.name}.new")
        try:
            if keep:
                self._path.replace(self._before)
            with os.fdopen(os.open(anew, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(head)
            anew.replace(self._path)
        except OSError as error:
            log.warning("%s cannot be written, so what was sent is not kept: %s", self._path, error)
        self._size = len(head)

    # ------------------------------------------------------------------------------------------------------- while it runs

    def _policy_made(self, model: str, role: str, policy: Policy) -> None:
        """A policy was made, which is to note what it sends."""
        if isinstance(policy, Remembering):
            if not any(each is policy for each in self._made.values()):  # one object may serve several models
                self._policies.guarded(policy, "remember", lambda: policy.remember(self._secret), None)
            self._made[model, role] = policy

    async def _recall(self, policy: Remembering, record: SentRecord) -> None:
        """Tell a policy what it had sent, a little at a time."""
        keys = array("Q", record.keys)
        for at in range(0, len(keys), _SLICE):
            some = keys[at : at + _SLICE].tolist()
            recall = partial(policy.recall, record.worker, record.rank, some)
            self._policies.guarded(policy, "recall", recall, None)
            await asyncio.sleep(0)

    async def run(self) -> None:
        """Write from time to time what policies have sent."""
        while True:
            over = asyncio.Event()
            timer = self._call_later(self._interval_s, over.set)
            try:
                await over.wait()
            finally:
                timer.cancel()
            await self.write()

    async def write(self) -> None:
        """Append what was sent since the last time. A disk that takes nothing loses it, and nothing else."""
        news = [
            (place, each)
            for place, policy in self._made.items()
            for each in self._policies.guarded(policy, "take_sent", policy.take_sent, _NOTHING)
        ]
        # Of a policy that chooses no more the last was written just now.
        chosen = {(model, role, id(policy)) for model, role, policy in self._policies.in_use()}
        self._made = {place: policy for place, policy in self._made.items() if (*place, id(policy)) in chosen}
        if news:
            await asyncio.get_running_loop().run_in_executor(self._disk, self._append, news)

    def _append(self, news: "list[tuple[tuple[str, str], tuple[str, int, Sequence[int]]]]") -> None:
        frame = sent_frame(
            [
                SentRecord(model, role, self._block, worker, rank, array("Q", keys).tobytes())
                for (model, role), (worker, rank, keys) in news
            ]
        )
        if self._size + len(frame) > self._most:
            self._begin(self._secret)
        if self._size + len(frame) > self._most:
            return  # more than all that may be kept
        try:
            with self._path.open("ab") as file:
                file.write(frame)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)
        self._size += len(frame)

    async def close(self) -> None:
        """Write what is left."""
        self._policies.on_made = None
        await self.write()
        self._disk.shutdown(wait=False)
