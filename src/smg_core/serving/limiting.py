"""Limits at the lease: a request reserves what it may take when it is admitted, and is charged what it took at its end.

Pure: counters, clock and timer are arguments. A reservation is put right when the prompt's tokens are known, while a long answer
comes, and once at the end, whatever that is. Above: the handlers, through `Live.limiting`; a gateway without limits never loads
this module. Below: limits.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from smg_core.clock import CallLater, Clock
from smg_core.errors import ClientGone, QuotaExceeded, RateLimited, RequestLimitReached, SmgError, TokenLimitReached
from smg_core.events import Usage
from smg_core.lease import HasUsage, RequestLease
from smg_core.limit_moments import BudgetLow
from smg_core.limits.counters import NEVER, Counter, Fullness, Instant, fullness, taken
from smg_core.limits.decision import LimitClaim, LimitRefusal, in_window
from smg_core.limits.demand import NO_DEMAND, Demand, Estimates, used
from smg_core.limits.low_budgets import LowBudgets
from smg_core.limits.plan import LimitPlan, plan_of
from smg_core.limits.prices import Price, Prices
from smg_core.limits.rules import Asker, LimitRule, Unit
from smg_core.limits.teams import NO_TEAMS, Teams
from smg_core.limits.words import HeaderFamily, limit_headers, refusal_text
from smg_core.pipeline.answer.trace import Trace
from smg_core.request import Caller, GenerationRequest, PoolRequest
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.own_prices import OwnPrices

__all__ = ["Counters", "Limited", "Limiting", "ReservedMoney"]

_Header = tuple[bytes, bytes]

_STEP = 512
"""Tokens of output beyond what is reserved that are charged while an answer still comes."""
_LOOK_S, _AT_ONCE = 0.25, 256
"""How often answers that come are looked at, and at how many at once: that takes less than a millisecond."""
_PLANS = 4096
"""How many plans are kept before all are worked out anew."""
_LONGEST_WAIT_S = 60.0
"""The longest wait that clients' libraries obey; with a longer one they are told not to try again."""


class Counters(Protocol):
    """What holds the counters."""

    def look(self, claims: Sequence[LimitClaim]) -> list[Counter]:
        """The counters that these claims are made of."""

    def claim(self, claims: Sequence[LimitClaim], at: Instant) -> LimitRefusal | None:
        """Charge all claims, or none and say why not."""

    def put_right(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """Put right what the claims were charged at `taken_at`, to `costs`; they stay reserved."""

    def settle(self, claims: Sequence[LimitClaim], costs: Sequence[int], taken_at: Instant, at: Instant) -> None:
        """The same, once the request has ended: `costs` are what it used."""


class StoredCounters(Counters, Protocol):
    """What holds the counters where they are in a store, which has to be waited for. What cannot wait is decided by what was seen
    of them last."""

    @property
    def now(self) -> Instant:
        """The store's time."""

    async def reserve(
        self, claims: Sequence[LimitClaim], at: Instant, decided: Callable[[LimitRefusal | None], None]
    ) -> None:
        """Charge all claims, or none, and tell `decided` why not."""


class Limited(Struct, frozen=True):
    """What limits look at of a request: who asks for which model, and what bounds its answer. `output` is False where there is
    none, as for vectors; `prompts` is how many prompts its body has. `free`: no engine is asked for it, as far as is known."""

    caller: Caller
    model: str
    user: str = ""
    bound: int | None = None
    choices: int = 1
    prompts: int = 1
    output: bool = True
    free: bool = False


class Limiting:
    """The limits of a gateway. `name_of` finds the served model's own name; `retry_after` says when a place may be free;
    `own` are the prices of workers."""

    def __init__(
        self,
        counters: Counters,
        clock: Clock,
        call_later: CallLater,
        name_of: Callable[[str, Caller], str],
        retry_after: Callable[[], float],
        own: OwnPrices | None = None,
    ) -> None:
        self.own = own
        self.counters, self.estimates = counters, Estimates()
        self.settings = LimitsConfig()
        self.rules: tuple[LimitRule, ...] = ()
        self.teams = NO_TEAMS
        self.prices, self.counts_money = Prices({}, ()), False
        self._clock, self._call_later = clock, call_later
        self._name_of, self._retry_after = name_of, retry_after
        self.stored: StoredCounters | None = None
        self._plans: dict[tuple[str, ...], LimitPlan] = {}
        self._by_user = False
        self._coming: dict[ActiveCharge, None] = {}
        self._looking = False
        self._low = LowBudgets()

    def adopt(
        self, settings: LimitsConfig, rules: tuple[LimitRule, ...], prices: Prices, teams: Teams = NO_TEAMS
    ) -> None:
        """Go by these rules, prices and teams from the next request on."""
        self.settings, self.rules, self.prices, self.teams = settings, rules, prices, teams
        self.counts_money = any(rule.unit == "money" for rule in rules)
        self._by_user = any(rule.user or "user" in rule.per for rule in rules)
        self._plans.clear()

    @property
    def now(self) -> Instant:
        """The time by which is counted."""
        if self.stored is not None:
            return self.stored.now
        return tuple.__new__(Instant, (int(self._clock.monotonic() * 1_000_000), self._clock.time(), 0, None))

    # --------------------------------------------------------------------------------------------------------- admission

    def begin_generation(
        self,
        request: GenerationRequest,
        prompts: int,
        lease: RequestLease,
        trace: Trace,
        family: HeaderFamily | None,
        always: list[_Header],
    ) -> "Awaitable[None] | None":
        """Reserve what a request may take, and tell its client in the headers `always` how much is left. Raises RateLimited, and
        QuotaExceeded for a budget; nothing is charged then. Where the counters are in a store, that is so once what is returned
        was awaited."""
        asked = _asked(request, prompts)
        if lease.shared is not None and lease.shared.free:
            asked = replace(asked, free=True)
        return self._begin(asked, lease, trace, family, always)

    def begin_pooled(
        self, request: PoolRequest, lease: RequestLease, trace: Trace, always: list[_Header]
    ) -> "Awaitable[None] | None":
        """The same for a request for vectors or scores."""
        inputs = max(1, len(request.inputs))
        asked = Limited(request.caller, request.model, request.user, prompts=inputs, output=False)
        return self._begin(asked, lease, trace, "openai", always)

    def _begin(
        self, asked: Limited, lease: RequestLease, trace: Trace, family: HeaderFamily | None, always: list[_Header]
    ) -> "Awaitable[None] | None":
        charge = ActiveCharge(self, asked, lease, trace)
        charge.prepare()
        if self.stored is not None:
            begun = partial(self._begun, charge, lease, trace, family, always)
            return self.stored.reserve(charge.claims, charge.at, begun)
        self._begun(charge, lease, trace, family, always, self.counters.claim(charge.claims, charge.at))
        return None

    def _begun(
        self,
        charge: "ActiveCharge",
        lease: RequestLease,
        trace: Trace,
        family: HeaderFamily | None,
        always: list[_Header],
        refusal: LimitRefusal | None,
    ) -> None:
        if family is not None:
            always += self._headers(charge, family)
        if refusal is not None:
            raise self.error(refusal)
        lease.charge = charge
        trace.charge = charge

    def resume(
        self, request: GenerationRequest, lease: RequestLease, trace: Trace, answer: HasUsage
    ) -> "Awaitable[None] | None":
        """Reserve what an answer may take that was asked for before and is made now, in the background: as a request it is
        counted already. Raises RateLimited where it has to wait, and QuotaExceeded. What is returned is as that of
        `begin_generation`."""
        lease.weight = request.size
        charge = ActiveCharge(self, _asked(request, 1), lease, trace, admitted=True)

        def decided(refusal: LimitRefusal | None) -> None:
            charge.go(refusal)
            self._hold(charge, lease, trace)
            charge.follow(answer)

        charge.prepare()
        if self.stored is not None:
            return self.stored.reserve(charge.claims, charge.at, decided)
        decided(self.counters.claim(charge.claims, charge.at))
        return None

    @staticmethod
    def _hold(charge: "ActiveCharge", lease: RequestLease, trace: Trace) -> None:
        lease.charge = charge
        trace.charge = charge

    def refusal_of(self, error: SmgError, lease: RequestLease) -> SmgError:
        """The error that a client is told whose body could not be read. That counts as a request too, so that who sends nothing
        else is refused for the number of them in the end."""
        if error.status >= 500 or error.status == 429 or lease.charge is not None or lease.kind == "tokens":
            return error
        return self.count(lease.caller) or error

    def count(self, caller: Caller) -> SmgError | None:
        """Count a request that is for no model, such as a call of a tool; returns its refusal where there are too many."""
        refusal = self.counters.claim(self._claims_without_model(caller, "requests", 1), self.now)
        return None if refusal is None else self.error(refusal)

    def money_of(self, caller: Caller, cost: int) -> "ReservedMoney | None":
        """What reserves so much of the caller's budgets for what is for no model, such as a call of a tool that has a price; None
        where there are no budgets for it."""
        claims = self._claims_without_model(caller, "money", cost)
        return ReservedMoney(self, caller.tenant, claims, self.now) if claims else None

    def _claims_without_model(self, caller: Caller, unit: Unit, cost: int) -> list[LimitClaim]:
        """What is claimed for what is for no model and for no user of a key: rules that name such, or count by them, are not for
        it."""
        tenant, key = caller.tenant, caller.principal
        asker = Asker(tenant, key, team=self.teams.team(tenant, key))
        claims: list[LimitClaim] = []
        for rule in self.rules:
            unknown = rule.model or rule.user or "model" in rule.per or "user" in rule.per
            if rule.unit == unit and not unknown and (scope := rule.scope(asker)) is not None:
                claims.append(LimitClaim(rule, scope, cost))
        return claims

    def plan(self, asked: Limited, model: str) -> LimitPlan:
        """The rules that are for a request, worked out once for each who asks for each model."""
        caller, user = asked.caller, asked.user if self._by_user else ""
        served = self._name_of(model, caller)
        found = self._plans.get((caller.tenant, caller.principal, user, served, model))
        if found is None:
            team = self.teams.team(caller.tenant, caller.principal)
            asker = Asker(caller.tenant, caller.principal, user, served, model, team)
            found = plan_of(self.rules, asker)
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[caller.tenant, caller.principal, user, served, model] = found
        return found

    def price(self, asker: Asker, worker: str = "") -> Price | None:
        """What the model costs, where that is known: at the `worker` that has answered, else at the dearest that may."""
        if self.own is not None:
            own = self.own.of_worker(worker) if worker else self.own.of_model(asker.model or asker.asked)
            if own is not None:
                return own
        return self.prices.find(asker.model, asker.asked) if asker.model else self.prices.find(asker.asked)

    def standing(self, claims: Sequence[LimitClaim], at: Instant | None = None) -> list[tuple[LimitRule, Fullness]]:
        """How full the counters of these claims are, now or at that time."""
        at, zone = at or self.now, self.settings.zone
        return [
            (claim.rule, fullness(claim.rule, counter, in_window(claim.rule, at, zone) if claim.rule.calendar else at))
            for claim, counter in zip(claims, self.counters.look(claims), strict=True)
        ]

    def explained(self, caller: Caller, user: str, model: str, tokens: int) -> list[tuple[LimitRule, Fullness, int]]:
        """Which rules are for this caller and model, how full they are, and the microseconds that a request of so many tokens of
        prompt would wait for each (NEVER: until something ends, or for good). Nothing is charged."""
        asked = Limited(caller, model, user)
        plan = self.plan(asked, model)
        asker = plan.asker
        output = self.estimates.output(asker.tenant, asker.model, None)
        price = self.price(asker) if self.counts_money else None
        money = None if price is None else price.cost(Usage(tokens, output))
        claims = plan.claims(Demand(1, tokens, output, tokens + output, 1, money or 0))
        at = self.now
        found: list[tuple[LimitRule, Fullness, int]] = []
        for claim, counter in zip(claims, self.counters.look(claims), strict=True):
            rule, now = claim.rule, in_window(claim.rule, at, self.settings.zone)
            wait = taken(rule, counter, claim.cost, now)[1]
            if rule.unit in ("tokens", "input_tokens") and tokens > rule.capacity:
                wait = NEVER
            if rule.unit == "money" and money is None and self.settings.unpriced == "refuse":
                wait = NEVER
            found.append((rule, fullness(rule, counter, now), wait))
        return found

    def error(self, refusal: LimitRefusal) -> SmgError:
        """The error of a refusal, in words that tell nothing of other tenants."""
        rule, wait = refusal.claim.rule, refusal.wait_us
        text = refusal_text(rule, wait, too_large=refusal.too_large)
        if rule.unit == "at_once":
            return RequestLimitReached(text, retry_after=self._retry_after())
        seconds = None if wait == NEVER or refusal.too_large else wait / 1_000_000
        again = None if seconds is not None and seconds <= _LONGEST_WAIT_S else False
        if not rule.private:
            return RateLimited(text, retry_after=seconds, should_retry=again)
        if rule.unit == "money":
            return QuotaExceeded(text, retry_after=seconds)
        kind = RequestLimitReached if rule.unit == "requests" else TokenLimitReached
        return kind(text, retry_after=seconds, should_retry=again)

    def warn(self, claims: Sequence[LimitClaim], report: Callable[[BudgetLow], None], tenant: str, at: Instant) -> None:
        """Say of each budget among these claims that most of it is spent, once in its window."""
        zone, share = self.settings.zone, self.settings.warn_at
        budgets = [each for each in claims if each.rule.unit == "money"]
        for claim, state in zip(budgets, self.counters.look(budgets), strict=True):
            if self._low.look(claim, state, in_window(claim.rule, at, zone), share, tenant):
                report(BudgetLow(claim.rule.text, tenant))

    def _headers(self, charge: "ActiveCharge", family: HeaderFamily) -> list[_Header]:
        at = charge.at if self.stored is None else self.stored.now  # a store may count by a time that is later
        reported = self.standing([each for each in charge.claims if each.rule.private], at)
        return limit_headers(family, reported, at.wall_s, standard=self.settings.standard_headers)

    # ------------------------------------------------------------------------------------------------- answers under way

    def watch(self, charge: "ActiveCharge") -> None:
        """Look at an answer from time to time, until it is settled."""
        self._coming[charge] = None
        if not self._looking:
            self._looking = True
            self._call_later(_LOOK_S, self._look)

    def unwatch(self, charge: "ActiveCharge") -> None:
        """Look at an answer no more."""
        self._coming.pop(charge, None)

    def _look(self) -> None:
        for charge in [each for each, _ in zip(self._coming, range(_AT_ONCE), strict=False)]:
            del self._coming[charge]
            self._coming[charge] = None
            charge.look()
        self._looking = bool(self._coming)
        if self._looking:
            self._call_later(_LOOK_S, self._look)


class ReservedMoney:
    """What a piece of work beside a request reserves of budgets, until it is settled, once."""

    __slots__ = ("_at", "_claims", "_limiting", "_tenant")

    def __init__(self, limiting: Limiting, tenant: str, claims: list[LimitClaim], at: Instant) -> None:
        self._limiting, self._tenant, self._claims, self._at = limiting, tenant, claims, at

    def reserve(self) -> "Awaitable[None] | None":
        """Reserve it; where the counters are in a store, that is so once what is returned was awaited. Raises QuotaExceeded and
        RateLimited where it is more than is left."""
        limiting = self._limiting
        if limiting.stored is not None:
            return limiting.stored.reserve(self._claims, self._at, self._go)
        self._go(limiting.counters.claim(self._claims, self._at))
        return None

    def _go(self, refusal: LimitRefusal | None) -> None:
        if refusal is not None:
            raise self._limiting.error(refusal)

    def settle(self, cost: int, report: Callable[[BudgetLow], None]) -> None:
        """It costs so much; `report` is told of budgets that are low now."""
        limiting, claims, now = self._limiting, self._claims, self._limiting.now
        limiting.counters.settle(claims, [cost] * len(claims), self._at, now)
        if cost:
            limiting.warn(claims, report, self._tenant, now)


class ActiveCharge:
    """What one request has reserved, until it is settled. `admitted`: it was counted as a request before."""

    __slots__ = (
        *("_admitted", "_answer", "_asked", "_demand", "_lease", "_limiting", "_plan", "_prompts_read", "_read"),
        *("_trace", "at", "claims"),
    )

    def __init__(
        self, limiting: Limiting, asked: Limited, lease: RequestLease, trace: Trace, *, admitted: bool = False
    ) -> None:
        self._limiting, self._asked, self._lease, self._trace = limiting, asked, lease, trace
        self._admitted = admitted
        self._plan, self.at = limiting.plan(asked, asked.model), limiting.now
        self._demand = NO_DEMAND
        self.claims: list[LimitClaim] = []
        self._read = self._prompts_read = 0
        self._answer: HasUsage | None = None

    # --------------------------------------------------------------------------------------------------------- reserving

    def reserve(self) -> None:
        """Charge what the request may take. Raises RateLimited and QuotaExceeded."""
        self.prepare()
        self.go(self._limiting.counters.claim(self.claims, self.at))

    def go(self, refusal: LimitRefusal | None) -> None:
        """Go on where nothing is refused. Raises RateLimited and QuotaExceeded."""
        if refusal is not None:
            raise self._limiting.error(refusal)

    def prepare(self) -> None:
        """Work out what the request may take. Raises QuotaExceeded where nobody knows what it costs."""
        limiting, asked, plan = self._limiting, self._asked, self._plan
        if asked.free:
            self._demand = Demand(0 if self._admitted else 1, at_once=1)
            self.claims = [each for each in plan.claims(self._demand) if each.cost]
            return
        asker, estimates = plan.asker, limiting.estimates
        read = self._read or estimates.input(asker.model, self._lease.weight)
        output = estimates.output(asker.tenant, asker.model, asked.bound, asked.choices) if asked.output else 0
        self._demand = demand = self._demanded(read, output)
        self.claims = plan.claims(demand)
        if limiting.counts_money and self._unpriced:
            self.claims = []
            raise QuotaExceeded(
                "What this model costs is not known here, and a budget applies.",
                detail=f"limits.unpriced is refuse, and no price is known for {asker.model!r}",
                outside_text=asker.model,
            )

    def _demanded(self, read: int, output: int, usage: Usage | None = None, at_once: int = 1) -> Demand:
        spent = None
        ended = self._trace.ended
        worker = "" if ended is None or usage is None else ended.worker
        if self._limiting.counts_money and (price := self._limiting.price(self._plan.asker, worker)) is not None:
            spent = price.cost(usage or Usage(read, output), batch=self._lease.kind == "batch")
        return Demand(0 if self._admitted else 1, read, output, read + output, at_once, spent or 0)

    @property
    def _unpriced(self) -> bool:
        """Whether a budget refuses the request, since nobody knows what it costs."""
        if self._limiting.settings.unpriced != "refuse" or not any(each.rule.unit == "money" for each in self.claims):
            return False
        price = self._limiting.price(self._plan.asker)
        return price is None or price.cost(Usage(1, int(self._asked.output))) is None

    # -------------------------------------------------------------------------------------------------------- on the way

    def read(self, tokens: int) -> None:
        """A prompt of the request has so many tokens. Raises TokenLimitReached where they are more than a limit ever allows."""
        self._read += tokens
        self._prompts_read += 1
        if self._prompts_read == 1 and self._asked.prompts == 1:
            self._limiting.estimates.read(self._plan.asker.model, self._lease.weight, tokens)
        for claim in self.claims:
            if claim.rule.unit in ("tokens", "input_tokens") and self._read > claim.rule.capacity:
                raise self._limiting.error(LimitRefusal(claim, NEVER, too_large=True))
        known = self._read if self._prompts_read >= self._asked.prompts else max(self._read, self._demand.input_tokens)
        self._charge(self._demanded(known, self._demand.output_tokens), bounded=True)

    def go_on_with(self, model: str) -> None:
        """Another model answers instead: its limits count. Raises RateLimited and QuotaExceeded."""
        self._read, self._prompts_read = 0, 0
        self._asked = replace(self._asked, model=model)
        self._again()

    def _again(self) -> None:
        """Reserve anew, in place of what is reserved."""
        self._settle([0] * len(self.claims), self._limiting.now)
        self._plan, self.at = self._limiting.plan(self._asked, self._asked.model), self._limiting.now
        try:
            self.reserve()
        except SmgError:
            self.claims = []
            raise

    def pay(self) -> None:
        """An engine answers after all. Raises RateLimited and QuotaExceeded."""
        self._asked = replace(self._asked, free=False)
        self._again()

    def follow(self, answer: HasUsage) -> None:
        """Charge what comes of an answer beyond what is reserved, while it comes."""
        self._answer = answer
        self._limiting.watch(self)

    def look(self) -> None:
        """Charge what has come of the answer, if that is much more than is charged."""
        usage = None if self._answer is None else self._answer.usage
        if usage is not None and usage.completion_tokens >= self._demand.output_tokens + _STEP:
            read, output = used(usage, self._limiting.settings.cached_weight)
            self._charge(self._demanded(max(read, self._demand.input_tokens), output, usage), bounded=False)

    def _charge(self, demand: Demand, *, bounded: bool) -> None:
        self._demand = demand
        claims: list[LimitClaim] = []
        costs: list[int] = []
        for claim in self.claims:
            cost: int = getattr(demand, claim.rule.unit)
            if bounded and cost > claim.rule.capacity:
                cost = claim.rule.capacity
            costs.append(cost)
            claims.append(claim if claim.cost == cost else LimitClaim(claim.rule, claim.scope, cost))
        if claims != self.claims:
            self._limiting.counters.put_right(self.claims, costs, self.at, self._limiting.now)
            self.claims = claims

    # ----------------------------------------------------------------------------------------------------------- the end

    def settle(self, usage: Usage | None, failure: SmgError | None = None) -> None:
        """Charge what was used. Without usage: nothing where no engine was asked, but for the request itself where its client is
        to blame or it goes on elsewhere; else the prompt."""
        limiting, asked = self._limiting, self._asked
        if self._answer is not None:
            limiting.unwatch(self)
            self._answer = None
        now = limiting.now
        if usage is not None:
            reported = usage.prompt_tokens > 0
            if not reported or isinstance(failure, ClientGone):
                usage = self._reckoned(usage, failure, now)
            read, output = used(usage, limiting.settings.cached_weight)
            demand = self._demanded(read, output, usage, at_once=0)
            if failure is None and asked.output and reported:
                asker, estimates = self._plan.asker, limiting.estimates
                estimates.answered(asker.tenant, asker.model, output, asked.choices)
                if not self._trace.stream:
                    estimates.took(asker.model, output // asked.choices, now[0] - self.at[0])
        elif self._trace.attempts:
            demand = self._demanded(self._read or self._demand.input_tokens, 0, at_once=0)
        else:
            ours = failure is not None and (failure.status >= 500 or failure.status == 429)
            demand = Demand(requests=0 if ours or self._admitted else 1)
        claims = self.claims
        self._settle([getattr(demand, claim.rule.unit) for claim in claims], now)
        if limiting.counts_money:
            limiting.warn(claims, self._trace.report, self._plan.asker.tenant, now)

    def _reckoned(self, usage: Usage, failure: SmgError | None, now: Instant) -> Usage:
        """A usage with what the engine has told nothing of: one that is asked over HTTP says it at the end, or never. No prompt
        is without a token; an answer is then what was reserved for it, and of one that its client has left what had come."""
        left = isinstance(failure, ClientGone)
        if usage.prompt_tokens or not self._trace.attempts:
            whole = left and not usage.completion_tokens and not self._trace.stream
            return replace(usage, completion_tokens=self._unseen(now)) if whole else usage
        output = usage.completion_tokens
        if not output and self._asked.output and (left or failure is None):
            output = self._unseen(now) if left else self._demand.output_tokens
        return replace(usage, prompt_tokens=self._read or self._demand.input_tokens, completion_tokens=output)

    def _unseen(self, now: Instant) -> int:
        """The tokens of a whole answer whose client has left before it came: an engine tells of none, so they are reckoned by how
        fast the model's answers came, up to what was reserved."""
        if not self._trace.attempts or not self._asked.output:
            return 0
        most, choices = self._demand.output_tokens, self._asked.choices
        return choices * self._limiting.estimates.generated(
            self._plan.asker.model, now[0] - self.at[0], most // choices
        )

    def _settle(self, costs: list[int], now: Instant) -> None:
        claims, self.claims = self.claims, []
        if claims:
            self._limiting.counters.settle(claims, costs, self.at, now)


def _asked(request: GenerationRequest, prompts: int) -> Limited:
    sampling = request.sampling
    return Limited(
        request.caller, request.model, request.user or "", sampling.max_tokens, max(1, sampling.n) * prompts, prompts
    )
