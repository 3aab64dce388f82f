"""Routing policies, which choose the worker of a request.

A policy is an object with `pick(candidates, context)`. `POLICIES` maps names to factories; other packages add theirs through the
entry point group `smg.policies`, or a user passes an object as `Gateway(policy=...)`.

- `base`: what a policy gets and returns
- `simple`: policies that look at the number of requests only
- `policies`: the policy objects in use, one for each model and role

Exports everything that a policy's author needs.
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
