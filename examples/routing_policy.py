"""A routing policy tried without a gateway: candidates and requests are records.

python examples/routing_policy.py
"""

from collections.abc import Sequence

from smg_core.routing import CacheAware, Candidate, CandidateRecord, Pick, RoutingContext, TokenIds


class Lightest:
    """The worker with the fewest requests for its weight."""

    name = "lightest"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(min(candidates, key=lambda worker: worker.in_flight / worker.weight))


# A test of a policy is three lines.
workers = [CandidateRecord("a", in_flight=2), CandidateRecord("b", in_flight=3, weight=4.0)]
assert Lightest().pick(workers, RoutingContext()).worker.name == "b"
print("lightest: b")

# A policy that comes with the package: the next turn of a chat goes where its beginning is in the cache.
policy, idle = CacheAware(), [CandidateRecord("a"), CandidateRecord("b")]
prompt = TokenIds(range(1000))
first = policy.pick(idle, RoutingContext(input_ids=prompt))
again = policy.pick(idle, RoutingContext(input_ids=prompt + TokenIds(range(200))))
assert again.worker is first.worker
print(f"cache_aware: the same worker again, with {again.cached} tokens in its cache ({again.basis})")
