"""The policies by name: the built-in ones, those of installed packages, and any object that a module has.

Each is made with the settings of routing and a source of randomness; one of a package or a module is called without arguments.
What a policy needs that is large (numpy) is loaded when one is first made. Pure. Above: the package, `policies`. Below: all
policies.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from random import Random as Randomness

from smg_core.routing.base import Policy, UnknownPolicy
from smg_core.routing.bucket import Bucket
from smg_core.routing.least_load import LeastLoad
from smg_core.routing.manual import Manual
from smg_core.routing.ranks import DpMinToken
from smg_core.routing.settings import RoutingConfig
from smg_core.routing.simple import LeastRequests, Passthrough, PowerOfTwo, Random, RoundRobin

__all__ = ["POLICIES", "checked_policy", "policy", "policy_for", "policy_place"]

_Make = Callable[[RoutingConfig, Randomness], Policy]


def _cache_aware(settings: RoutingConfig, rng: Randomness) -> Policy:
    from smg_core.routing.cache_aware import CacheAware

    return CacheAware(settings, rng)


def _consistent_hashing(settings: RoutingConfig, rng: Randomness) -> Policy:
    from smg_core.routing.affinity import ConsistentHashing

    return ConsistentHashing()


def _prefix_hash(settings: RoutingConfig, rng: Randomness) -> Policy:
    from smg_core.routing.affinity import PrefixHash

    return PrefixHash(settings)


POLICIES: Mapping[str, _Make] = {
    "round_robin": lambda settings, rng: RoundRobin(),
    "random": lambda settings, rng: Random(rng),
    "least_requests": lambda settings, rng: LeastRequests(),
    "power_of_two": lambda settings, rng: PowerOfTwo(rng),
    "least_load": LeastLoad,
    "cache_aware": _cache_aware,
    "consistent_hashing": _consistent_hashing,
    "prefix_hash": _prefix_hash,
    "manual": Manual,
    "bucket": lambda settings, rng: Bucket(settings),
    "passthrough": lambda settings, rng: Passthrough(),
    "dp_min_token": lambda settings, rng: DpMinToken(),
}
"""The built-in policies by name."""


def policy(name: str, settings: RoutingConfig | None = None, rng: Randomness | None = None) -> Policy:
    """A new policy: one of `POLICIES`, what a module has ("package.module:Class", which is called), or the entry point of that
    name in the group `smg.policies`. Raises UnknownPolicy, whose message lists the names."""
    if name in POLICIES:
        return POLICIES[name](settings or RoutingConfig(), rng or Randomness())
    module, colon, attribute = name.partition(":")
    if colon:
        return _made(name, lambda: getattr(import_module(module), attribute))
    from importlib.metadata import entry_points  # loads much, and most users name a built-in policy

    installed = {entry.name: entry for entry in entry_points(group="smg.policies")}
    if name in installed:
        return _made(name, installed[name].load)
    raise UnknownPolicy(f"no routing policy {name!r}; there are {', '.join(sorted({*POLICIES, *installed}))}")


def _made(name: str, load: Callable[[], object]) -> Policy:
    """The policy that `load` finds. Whatever its code raises while it is loaded and made is told as UnknownPolicy."""

    def make() -> object:
        found = load()
        return found() if callable(found) else found

    return checked_policy(repr(name), make)


def checked_policy(called: str, make: Callable[[], object]) -> Policy:
    """What `make` makes, if it is a policy; `called` is what an error calls it. Raises UnknownPolicy, also for whatever a
    user's code raises."""
    try:
        made = make()
        pick, own = getattr(made, "pick", None), getattr(made, "name", None)
    except Exception as error:
        raise UnknownPolicy(f"no routing policy {called}: {type(error).__name__}: {error}") from error
    lacks = [part for part, there in (("name", isinstance(own, str)), ("pick", callable(pick))) if not there]
    if lacks:
        lacking = f"{type(made).__name__} has no {' and no '.join(lacks)}"
        needed = "a policy has a name, which is a text, and a method pick(candidates, context)"
        raise UnknownPolicy(f"{called} is no routing policy: {lacking}; {needed}")
    if iscoroutinefunction(pick) or isasyncgenfunction(pick):
        raise UnknownPolicy(f"{called} is no routing policy: its pick is a coroutine, and a policy must not wait")
    if wrong := _wrong_arguments(pick):
        raise UnknownPolicy(f"{called} is no routing policy: {wrong}; it is called as pick(candidates, context)")
    policy: Policy = made  # type: ignore[assignment]  # as far as can be seen
    return policy


def _wrong_arguments(pick: object) -> str:
    """Why a method cannot be called as `pick(candidates, context)`, "" where it can or cannot be looked at."""
    try:
        taken = signature(pick)  # type: ignore[arg-type]  # it can be called
    except (TypeError, ValueError):
        return ""
    try:
        taken.bind(None, None)
    except TypeError as error:
        return f"its pick{taken} cannot be called with two arguments ({error})"
    return ""


def policy_for(rows: Iterable[str]) -> Mapping[tuple[str, str], str]:
    """Policies' names by model and role, of rows "MODEL=POLICY", "MODEL/ROLE=POLICY" and "*/ROLE=POLICY"; "*" stands for any.
    Raises ValueError for a row of another form, and for two of the same place."""
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        place, equals, name = row.rpartition("=")
        model, role = policy_place(place)
        if not equals or not model or not name:
            raise ValueError(f"{row!r} is not of the form MODEL=POLICY or MODEL/ROLE=POLICY")
        if (model, role) in found:
            raise ValueError(f"there are two policies for {place!r}")
        found[model, role] = name
    return found


def policy_place(place: str) -> tuple[str, str]:
    """The model and the role of "MODEL" or "MODEL/ROLE"; without one, any role."""
    model, slash, role = place.rpartition("/")
    return (model, role) if slash and role in _ROLES else (place, "*")  # the names of models have slashes, too


_ROLES = frozenset({"regular", "prefill", "decode", "encode", "embedding", "*"})
