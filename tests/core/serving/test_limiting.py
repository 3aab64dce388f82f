"""Whatever happens to requests, what is counted in the end is what they have used, and nothing stays reserved."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as some

from smg_core.errors import ClientGone, InvalidRequest, NoWorker, SmgError
from smg_core.events import Usage
from smg_core.hooks import EncodeDone, FellBack, SilentObserver
from smg_core.lease import Population, RequestLease
from smg_core.limits.decision import LimitClaim
from smg_core.limits.memory import MemoryCounters
from smg_core.limits.rules import Asker, read_rules
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Caller, GenerationRequest, Sampling
from smg_core.serving.limiting import Limiting
from smg_core.testing import FakeClock
from smg_core.wire.settings import LimitsConfig

RULES = (
    "1_000_000_000 requests/day per=key",
    "1_000_000_000 tokens/day per=key",
    "1_000_000_000 input-tokens/day per=key,model",
    "1_000_000_000 output-tokens/day per=key,model",
    "1_000 at-once per=key",
)
CALLER = Caller("acme", "one")


@dataclass
class Coming:
    """An answer under way."""

    usage: Usage | None = None


@dataclass
class Sent:
    """One request, and its parts that the gateway holds."""

    lease: RequestLease
    trace: Trace
    answer: Coming
    model: str


def limiting(clock: FakeClock, cached_weight: float = 1.0) -> Limiting:
    found = Limiting(
        MemoryCounters(1000, "UTC"), clock, lambda s, call: clock.call_at(clock.monotonic() + s, call),
        lambda name, _: name, lambda: 1.0,
    )  # fmt: skip
    found.adopt(LimitsConfig(cached_weight=cached_weight), read_rules(RULES), found.prices)
    return found


def begin(limits: Limiting, model: str, bound: int | None, size: int) -> Sent:
    request = GenerationRequest("r", model, sampling=Sampling(max_tokens=bound), caller=CALLER)
    trace = Trace(0.0, SilentObserver())
    lease = RequestLease(Population(), CALLER, "generation", size)
    limits.begin_generation(request, 1, lease, trace, "openai", [])
    sent = Sent(lease, trace, Coming(), model)
    assert lease.charge is not None
    lease.charge.follow(sent.answer)
    return sent


def counted(limits: Limiting, number: int, model: str = "m") -> int:
    rule = limits.rules[number]
    scope = rule.scope(Asker("acme", "one", "", model, model))
    assert scope is not None
    full = limits.standing([LimitClaim(rule, scope, 0)])[0][1]
    return full.limit - full.remaining


ENDS: dict[str, SmgError | None] = {
    "end": None,
    "fail": NoWorker("None is there."),
    "refuse": InvalidRequest("This is wrong."),
    "leave": ClientGone("It has left."),
}
WORDS = some.sampled_from(["begin", "read", "come", "fall back", "wait", "end", "fail", "refuse", "leave"])
STEPS = some.lists(some.tuples(WORDS, some.integers(0, 5000), some.integers(1, 3000)), max_size=30)


@given(STEPS)
def test_what_is_counted_is_the_sum_of_what_was_used(steps: list[tuple[str, int, int]]) -> None:
    clock = FakeClock()
    limits = limiting(clock)
    under_way: list[Sent] = []
    requests, spent = 0, {"m": Usage(0, 0), "n": Usage(0, 0)}
    for word, place, amount in steps:
        if word == "begin" or not under_way:
            under_way.append(begin(limits, "m", amount if place % 2 else None, amount))
            continue
        if word == "wait":
            clock.advance(amount / 100)
            continue
        sent = under_way[place % len(under_way)]
        if word == "read":
            sent.trace.report(EncodeDone("r", 0, 0, amount, 0.0, 0.0))
        elif word == "come":
            before = sent.answer.usage or Usage(amount, 0)
            sent.answer.usage = Usage(before.prompt_tokens, before.completion_tokens + amount)
        elif word == "fall back" and sent.answer.usage is None:
            sent.model = "n" if sent.model == "m" else "m"
            sent.trace.report(FellBack("r", "m", sent.model, "failed"))
        elif word in ENDS:
            usage = sent.answer.usage
            sent.lease.settle(usage, ENDS[word])
            sent.lease.settle(Usage(10**6, 10**6))  # only the first counts
            sent.lease.release()
            under_way.remove(sent)
            requests += not (word == "fail" and usage is None)
            spent[sent.model] = spent[sent.model] + (usage or Usage(0, 0))
    for sent in under_way:
        sent.lease.settle(None, NoWorker("None is there."))
        sent.lease.release()

    assert counted(limits, 0) == requests
    assert counted(limits, 1) == sum(each.total_tokens for each in spent.values())
    for model, usage in spent.items():
        assert counted(limits, 2, model) == usage.prompt_tokens
        assert counted(limits, 3, model) == usage.completion_tokens
    assert counted(limits, 4) == 0


def test_a_prompt_that_an_engine_has_read_is_paid_for_where_nothing_says_how_much_was_used() -> None:
    limits = limiting(FakeClock())
    sent = begin(limits, "m", 10, 100)
    sent.trace.report(EncodeDone("r", 0, 0, 77, 0.0, 0.0))
    sent.trace.attempts = 1
    sent.lease.settle(None, ClientGone("It has left."))

    assert counted(limits, 1) == 77


def test_tokens_from_an_engines_cache_count_with_their_weight() -> None:
    counts = []
    for weight in (0.0, 0.5, 1.0):
        limits = limiting(FakeClock(), weight)
        begin(limits, "m", 10, 100).lease.settle(Usage(101, 5, cached_tokens=51))
        counts.append(counted(limits, 2))

    assert counts == [50, 76, 101]


def test_the_estimate_follows_the_answers_of_each_tenant() -> None:
    limits = limiting(FakeClock())
    for _ in range(40):
        begin(limits, "m", None, 100).lease.settle(Usage(10, 1000))

    assert limits.estimates.output("acme", "m", None) == 1000
    assert limits.estimates.output("acme", "m", 30) == 30
    assert limits.estimates.output("other", "m", None) == 256
    assert limits.estimates.output("other", "m", None, 3) == 768


def test_a_server_that_counts_its_prompts_itself_leaves_the_estimate() -> None:
    limits = limiting(FakeClock())
    sent = begin(limits, "m", 10, 350)
    sent.trace.report(EncodeDone("r", 0, 0, 0, 0.0, 0.0))

    assert counted(limits, 2) == 100
