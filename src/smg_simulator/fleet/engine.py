"""One engine of a simulated fleet: its queue, its steps and its cache, under a clock that the caller holds.

It models continuous batching with chunked prefill. In each step every request that has begun its answer gets one token, and what
is left of the step's budget of tokens computes prompts, in the order of their arrival. A request gets its first token at the end
of the step in which its prompt is complete. A step takes a fixed time, some for each request that decodes, and some for each
token of a prompt. Steps that are all alike are taken together, so that a long answer is simulated as quickly as a short one.

A request is admitted when the step has tokens left for it, the batch has room, and the cache has room for its prompt and its
whole answer; so no request is ever set back, as it can be in a real engine whose memory was promised twice.

Pure. Above: simulator.fleet.replay, which calls `arrive` when a request comes and `finish` when a step ends.
"""

from collections import deque
from heapq import heappop, heappush
from math import ceil

import attrs

from smg_simulator.fleet.block_cache import BlockCache, BlockLease
from smg_simulator.fleet.trace import FleetRequest, block_count

__all__ = ["EngineSpeed", "FleetEngine", "Task"]


@attrs.frozen
class EngineSpeed:
    """How fast and how large an engine is. Times in seconds, sizes in tokens; `running` requests are in the batch at most.

    The defaults are near those of an 8-billion-parameter model on one large GPU."""

    step_s: float = attrs.field(default=0.006, validator=attrs.validators.gt(0.0))
    request_s: float = attrs.field(default=0.00035, validator=attrs.validators.ge(0.0))
    prompt_token_s: float = attrs.field(default=1 / 8000, validator=attrs.validators.ge(0.0))
    step_tokens: int = attrs.field(default=2048, validator=attrs.validators.ge(1))
    running: int = attrs.field(default=256, validator=attrs.validators.ge(1))
    cache_tokens: int = attrs.field(default=524_288, validator=attrs.validators.ge(1))


class Task:
    """One call of an engine for a request, which ends after `output` tokens. `hit` are the prompt's tokens that its cache had,
    `left` those still to be computed (before it is admitted: as far as can be told). `arrived`, `first` and `done` are when it
    came, and when its first and its last token did, in seconds. With `handed_over` the prompt's cache comes from another engine,
    and nothing of it is computed here."""

    __slots__ = ("arrived", "done", "first", "handed_over", "hit", "key", "lease", "left", "named", "output", "request")

    def __init__(self, key: int, request: FleetRequest, output: int, *, handed_over: bool = False) -> None:
        self.key = key
        self.request = request
        self.output = output
        self.handed_over = handed_over
        self.arrived = 0.0
        self.hit = self.left = self.named = 0
        self.first: float | None = None
        self.done: float | None = None
        self.lease: BlockLease | None = None


class FleetEngine:
    """One engine, whose cache has blocks of `block` tokens. `factor` is how much faster than `speed` it is. With `recorded`
    the cache notes what changes.

    `ends` is when the steps that are under way end (None: it is idle); the caller calls `finish` then, and looks at `ends`
    again after each call. `begun` are the calls whose first token came with the step that ended last. `work` is the time of all
    steps so far without their fixed part: what requests cost here."""

    __slots__ = (
        "_began", "_count", "_decoding", "_each", "_plan", "_prompts", "_steps", "_waiting",
        "begun", "block", "cache", "ends", "factor", "name", "pending", "recorded", "speed", "work",
    )  # fmt: skip

    def __init__(self, name: str, speed: EngineSpeed, block: int, factor: float = 1.0) -> None:
        self.name = name
        self.speed = speed
        self.block = block
        self.factor = factor
        self.recorded = False
        self.work = 0.0
        self._start()

    def record(self) -> None:
        """Note from now on what changes in the cache."""
        self.recorded = self.cache.recorded = True

    def clear(self) -> list[Task]:
        """Become an engine that has just started; returns the calls that were lost."""
        lost = self.tasks()
        self._start()
        return lost

    def _start(self) -> None:
        self.cache = BlockCache(max(1, self.speed.cache_tokens // self.block), recorded=self.recorded)
        self.ends: float | None = None
        self.begun: list[Task] = []
        self.pending = 0
        self._waiting: deque[Task] = deque()
        self._prompts: deque[Task] = deque()
        self._decoding: list[tuple[int, int, Task]] = []
        self._plan: list[tuple[Task, int]] = []
        self._steps = self._count = 0
        self._began = self._each = 0.0

    def tasks(self) -> list[Task]:
        """All calls that are not over, the longest here first."""
        return [*(task for _, _, task in sorted(self._decoding)), *self._prompts, *self._waiting]

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._prompts) + len(self._decoding)

    @property
    def cache_use(self) -> float:
        """The share of the cache that requests hold, 0 to 1."""
        return self.cache.busy / self.cache.capacity

    def could_hold(self, request: FleetRequest) -> bool:
        """Whether the request would fit into the cache if nothing else were in it."""
        return block_count(request.prompt_tokens + request.output_tokens, self.block) <= self.cache.capacity

    def uncached(self, request: FleetRequest) -> int:
        """How many tokens of the prompt would be computed if it came now. The last one always is."""
        found = self.cache.held(request.blocks) * self.block
        return request.prompt_tokens - min(found, request.prompt_tokens - 1)

    def arrive(self, task: Task, now: float) -> None:
        """A call comes."""
        task.arrived = now
        task.left = 0 if task.handed_over else self.uncached(task.request)
        self.pending += task.left
        self._waiting.append(task)
        if self.ends is None:
            self._begin(now)
        elif (
            self._count > 1
        ):  # it is looked at when the step that is under way ends, not after all those taken together
            done = max(1, ceil((now - self._began) / self._each - 1e-9))
            if done < self._count:
                self._count, self.ends = done, self._began + done * self._each

    def finish(self, now: float) -> list[Task]:
        """The steps under way end; the next begin, if there is anything to do. Returns the calls that are over."""
        speed = self.speed
        over: list[Task] = []
        self.begun = []
        self._steps += self._count
        self.work += self._count * (self._each - speed.step_s / self.factor)
        for task, tokens in self._plan:
            task.left -= tokens
            self.pending -= tokens
            self._name_computed(task)
            if task.left == 0:
                task.first = now
                self.begun.append(task)
                heappush(self._decoding, (self._steps + task.output - 1, task.key, task))
        while self._prompts and self._prompts[0].left == 0:
            self._prompts.popleft()
        while self._decoding and self._decoding[0][0] <= self._steps:
            over.append(self._end(heappop(self._decoding)[2], now))
        self._begin(now)
        return over

    def _name_computed(self, task: Task) -> None:
        request, lease = task.request, task.lease
        full = min(len(request.blocks), (request.prompt_tokens - task.left) // self.block)
        if lease is not None and full > task.named:
            self.cache.name(lease, request.blocks[task.named : full])
            task.named = full

    def _end(self, task: Task, now: float) -> Task:
        task.done = now
        if task.lease is not None:
            if task.output == task.request.output_tokens:
                self.cache.name(task.lease, task.request.answer_blocks)
            self.cache.release(task.lease)
        return task

    def _begin(self, now: float) -> None:
        speed = self.speed
        budget = max(1, speed.step_tokens - len(self._decoding))
        plan, tokens = list[tuple[Task, int]](), 0
        for task in self._prompts:
            share = min(task.left, budget - tokens)
            plan.append((task, share))
            tokens += share
            if tokens == budget:
                break
        while tokens < budget and self._admit():
            if self._prompts and (not plan or self._prompts[-1] is not plan[-1][0]):
                task = self._prompts[-1]
                share = min(task.left, budget - tokens)
                plan.append((task, share))
                tokens += share
        self._plan, decoding = plan, len(self._decoding)
        if not plan and not decoding:
            self.ends = None
            return
        self._began = now
        self._each = (speed.step_s + speed.request_s * decoding + speed.prompt_token_s * tokens) / self.factor
        self._count = 1 if plan else self._decoding[0][0] - self._steps
        self.ends = now + self._count * self._each

    def _admit(self) -> bool:
        """Take the request that has waited longest into the batch, if there is one and it has room. What the cache has of its
        prompt is looked up now: behind a long prompt that other requests share it waits until that one is computed."""
        if not self._waiting or self.running >= self.speed.running:
            return False
        task = self._waiting[0]
        request = task.request
        lease = self.cache.lease(request.blocks, block_count(request.prompt_tokens + task.output, self.block))
        if lease is None:
            return False
        self._waiting.popleft()
        task.lease, task.named = lease, len(lease.shared)
        if task.handed_over:
            self._name_computed(task)
            heappush(self._decoding, (self._steps + task.output, task.key, task))
        else:
            task.hit = min(task.named * self.block, request.prompt_tokens - 1)
            self.pending += request.prompt_tokens - task.hit - task.left
            task.left = request.prompt_tokens - task.hit
            self._prompts.append(task)
        return True
