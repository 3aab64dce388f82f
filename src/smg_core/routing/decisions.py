"""The decisions of policies, recorded to be explained, and replayed with another policy.

Pure: the time comes with the request. Above: the pipeline's Select step notes decisions, the admin door shows them. Below:
base. No token and no header of a request is in a record that is shown; the prompt stays beside it, for `replay_decisions` alone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import index

from msgspec import Struct
from msgspec.structs import replace

from smg_core.cards import card
from smg_core.routing.base import Basis, Candidate, Pick, Policy, RoutingContext
from smg_core.workers.candidate import CandidateRecord

__all__ = ["Decisions", "Replayed", "RoutingDecision", "replay_decisions"]

_COLUMNS = (
    "worker",
    "",
    "score (lowest is best)",
    "tokens expected in its cache",
    "in flight",
    "prompt tokens that wait",
    "queued / running in the engine / of others",
    "KV cache in use",
)
LONGEST_WHY = 500
"""Characters of a policy's reason that are kept; policies are written by users, too."""
_DECISION_BYTES = 1200
_CANDIDATE_BYTES = 240
_TOKEN_BYTES = 4
_CHARACTER_BYTES = 4


class RoutingDecision(Struct, frozen=True):
    """One decision. `at` is its time in seconds since the epoch, `attempt` counts the tries for this request from 1; `scores`
    (the lowest is best), `matched` (tokens that the candidate's cache was expected to have), `bases` (how that was known) and
    `stale` (the age in seconds of what its engine had told last) have a row for each of `candidates`, or none where the policy
    has no such numbers. `sentence` is a sentence of what the score is made of, `placed` the rules by which the candidates were
    narrowed before, with what became of them. The other fields are those of `Pick`."""

    request_id: str
    model: str
    role: str
    policy: str
    attempt: int
    at: float
    prompt_tokens: int
    worker: str
    rank: int | None
    why: str
    cached: int
    basis: Basis
    stale_s: float | None
    candidates: tuple[CandidateRecord, ...]
    scores: tuple[float, ...]
    matched: tuple[int, ...]
    bases: tuple[Basis, ...] = ()
    stale: tuple[float | None, ...] = ()
    parts: Mapping[str, Mapping[str, float]] = {}
    sentence: str = ""
    placed: str = ""

    def _repr_html_(self) -> str:
        """The decision as a table for notebooks: the candidates, the best score first."""
        place = self.worker if self.rank is None else f"{self.worker}, rank {self.rank}"
        why = f" ({self.why})" if self.why else ""
        known = "" if self.basis == "none" else f", of which {self.cached:,} expected in its cache ({self.basis})"
        title = f"{self.policy}: {place}{why}; {self.prompt_tokens:,} prompt tokens{known}"
        title += f"; placed by {self.placed}" if self.placed else ""
        order = sorted(range(len(self.candidates)), key=lambda at: self.scores[at] if self.scores else at)
        return card(title, [self._row(at) for at in order], _COLUMNS)

    def _row(self, at: int) -> tuple[str, ...]:
        each = self.candidates[at]
        return (
            each.name,
            "chosen" if each.name == self.worker else "",
            f"{self.scores[at]:,.4g}" if self.scores else "",
            f"{self.matched[at]:,}" if self.matched else "",
            str(each.in_flight),
            f"{each.prefill_tokens:,}",
            f"{each.queued} / {each.running} / {each.others}",
            f"{each.kv_usage:.0%}",
        )


_PARTS = {
    "reading": "reading the prompt",
    "waiting": "what waits there already and its KV cache",
    "crowd": "more requests than the mean of all workers",
    "lead": "having had more than its fair share lately",
    "preferred": "being the worker that all gateways prefer",
    "hand_over": "handing the cache over",
}


def score_sentence(decision: RoutingDecision) -> str:
    """What the scores of the chosen worker, and of another one that has most of the prompt, are made of; "" where the policy does
    not say."""
    return " ".join(_scored(name, parts, decision) for name, parts in decision.parts.items())


def _scored(name: str, parts: Mapping[str, float], decision: RoutingDecision) -> str:
    named = sorted(((value, _PARTS.get(part, part)) for part, value in parts.items() if round(value)), reverse=True)
    made = ", ".join(f"{value:,.0f} for {text}" for value, text in named) or "nothing to do"
    has = [tokens for each, tokens in zip(decision.candidates, decision.matched, strict=False) if each.name == name]
    cached = (
        f", which is expected to have {has[0]:,} of the {decision.prompt_tokens:,} tokens" if has and has[0] else ""
    )
    role = "chosen" if name == decision.worker else "not chosen"
    return f"{name}{cached}, was {role}: {sum(parts.values()):,.0f} tokens, of which {made}."


class Replayed(Struct, frozen=True):
    """Another policy's choice for a recorded request: `worker` and `rank`, where `was` was chosen."""

    request_id: str
    was: str
    worker: str
    rank: int | None
    cached: int


class _Noted(Struct, frozen=True):
    """A decision as it is kept: few are asked for, so the record that is shown is made then."""

    candidates: tuple[CandidateRecord, ...]
    pick: Pick
    policy: str
    attempt: int
    at: float
    placed: str


class Decisions:
    """The latest decisions: at most `most`, and about `most_bytes` with their prompts; the oldest go first. With `most` 0 none is
    kept."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._turn = 0
        self._kept: OrderedDict[int, tuple[_Noted, RoutingContext, int]] = OrderedDict()
        self._of_request: dict[str, list[int]] = {}

    def note(
        self,
        candidates: Sequence[Candidate],
        context: RoutingContext,
        pick: Pick,
        policy: str,
        attempt: int,
        at: float,
        placed: str = "",
    ) -> None:
        """Keep a decision. `placed`: as of `RoutingDecision`. Called by the Select step, before what it changes is counted."""
        if not self._most:
            return
        has_rows = len(pick.scores) or len(pick.matched) or len(pick.bases) or len(pick.stale) or pick.parts
        if has_rows or len(pick.why) > LONGEST_WHY:
            pick = _frozen(pick)
        are_records = type(candidates[0]) is CandidateRecord and type(candidates[-1]) is CandidateRecord
        # those that a gateway shows to its policies are records already, all of them
        records = tuple(candidates) if are_records else tuple(map(_record, candidates))
        noted = _Noted(records, pick, policy, attempt, at, placed)  # type: ignore[arg-type]
        size = _DECISION_BYTES + _CANDIDATE_BYTES * len(candidates)
        texts = (context.text, context.cache_key or "", context.cache_salt or "")
        size += len(placed) + _TOKEN_BYTES * context.input_ids.size + _CHARACTER_BYTES * sum(map(len, texts))
        self._turn += 1
        self._kept[self._turn] = noted, replace(context, headers={}), size
        self._of_request.setdefault(context.request_id, []).append(self._turn)
        self._bytes += size
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            self._drop()

    def _drop(self) -> None:
        turn, (_, context, size) = self._kept.popitem(last=False)
        self._bytes -= size
        turns = self._of_request[context.request_id]
        turns.remove(turn)
        if not turns:
            del self._of_request[context.request_id]

    def of(self, request_id: str) -> list[RoutingDecision]:
        """The decisions for one request that are still kept, in order: one for each role and try. Each has its sentence."""
        found = [_decision(*self._kept[turn][:2]) for turn in self._of_request.get(request_id, ())]
        return [replace(each, sentence=score_sentence(each)) for each in found]

    def __iter__(self) -> Iterator[tuple[RoutingDecision, RoutingContext]]:
        """All that are kept, oldest first, with the requests that they were for, without headers."""
        return iter([(_decision(noted, context), context) for noted, context, _ in self._kept.values()])

    def __len__(self) -> int:
        return len(self._kept)


def _frozen(pick: Pick) -> Pick:
    """A pick that its policy cannot change any more, with a reason of bounded length."""
    return replace(
        pick,
        why=pick.why[:LONGEST_WHY],
        scores=tuple(pick.scores),
        matched=tuple(pick.matched),
        bases=tuple(pick.bases),
        stale=tuple(pick.stale),
        parts={name: dict(parts) for name, parts in pick.parts.items()},
    )


def _decision(noted: _Noted, context: RoutingContext) -> RoutingDecision:
    pick = noted.pick
    return RoutingDecision(
        request_id=context.request_id,
        model=context.model,
        role=context.role,
        policy=noted.policy,
        attempt=noted.attempt,
        at=noted.at,
        prompt_tokens=context.tokens,
        worker=pick.worker.name,
        rank=pick.rank,
        why=pick.why,
        cached=pick.cached,
        basis=pick.basis,
        stale_s=pick.stale_s,
        candidates=noted.candidates,
        scores=tuple(map(float, pick.scores)),
        matched=tuple(map(index, pick.matched)),
        bases=tuple(pick.bases),
        parts=pick.parts,
        stale=tuple([None if age is None else float(age) for age in pick.stale]),
        placed=noted.placed,
    )


def _record(candidate: Candidate) -> CandidateRecord:
    if isinstance(candidate, CandidateRecord):
        return candidate
    return CandidateRecord(
        candidate.name,
        candidate.in_flight,
        candidate.queued,
        candidate.weight,
        candidate.running,
        candidate.prefill_tokens,
        candidate.kv_usage,
        candidate.kv_tokens,
        candidate.rank_count,
        candidate.ranks,  # type: ignore[arg-type]  # the report itself: a policy may look whether it is another one
        tuple(candidate.ranks_out),
        candidate.others,
    )


def replay_decisions(decisions: Iterable[tuple[RoutingDecision, RoutingContext]], policy: Policy) -> list[Replayed]:
    """The choices of `policy`, a new one, for recorded requests, in their order. It sees the candidates as they were then: the
    loads are those of the choices that were made, not of its own."""
    found = []
    for decision, context in decisions:
        pick = policy.pick(decision.candidates, context)
        found.append(Replayed(decision.request_id, decision.worker, pick.worker.name, pick.rank, pick.cached))
    return found
