"""Which worker takes a request.

A policy is one small object: look at the candidates, name one. `POLICIES` maps names to factories; third parties add
theirs through the entry point group `smg.policies` or hand an object to `Gateway(policy=...)`.
"""

from smg_core.routing.base import (
    Candidate,
    Observing,
    Pick,
    Policy,
    RequestEnded,
    RoutingContext,
    UnknownPolicy,
    make_policy,
)
from smg_core.routing.policies import Policies
from smg_core.routing.simple import LeastRequests, PowerOfTwo, Random, RoundRobin

__all__ = [
    "POLICIES",
    "Candidate",
    "LeastRequests",
    "Observing",
    "Pick",
    "Policies",
    "Policy",
    "PowerOfTwo",
    "Random",
    "RequestEnded",
    "RoundRobin",
    "RoutingContext",
    "UnknownPolicy",
    "policy",
]

POLICIES = {
    "round_robin": RoundRobin,
    "random": Random,
    "least_requests": LeastRequests,
    "power_of_two": PowerOfTwo,
}
"""The built-in policies by name; each is called without arguments."""


def policy(name: str) -> Policy:
    """A new policy by name: one of `POLICIES`, or of the entry points `smg.policies`. Raises UnknownPolicy."""
    return make_policy(name, POLICIES)
