"""Moments reach everyone who listens, in order."""

import pytest

from smg_core import hooks
from smg_core.hooks import Retrying, SilentObserver, WorkerStateChanged, fan_out


class Listener:
    def __init__(self, name, heard):
        self.name, self.heard = name, heard

    def report(self, moment):
        self.heard.append((self.name, moment))


CHANGE = WorkerStateChanged("gpu-0", "ready", "unreachable", "refused")


def test_every_listener_hears_every_moment_in_the_order_given():
    heard = []
    observer = fan_out(Listener("a", heard), Listener("b", heard))
    retry = Retrying("r", "gpu-0", "WorkerGone", 0.1)
    observer.report(CHANGE)
    observer.report(retry)
    assert heard == [("a", CHANGE), ("b", CHANGE), ("a", retry), ("b", retry)]


def test_a_listener_that_names_what_it_hears_gets_that_and_no_more_also_within_others():
    heard = []
    choosy = Listener("choosy", heard)
    choosy.hears = frozenset({Retrying})
    observer = fan_out(fan_out(choosy, Listener("a", heard)), Listener("b", heard))
    retry = Retrying("r", "gpu-0", "WorkerGone", 0.1)
    observer.report(CHANGE)
    observer.report(retry)
    assert heard == [("a", CHANGE), ("b", CHANGE), ("choosy", retry), ("a", retry), ("b", retry)]


def test_a_single_listener_is_called_without_a_detour():
    listener = Listener("a", [])
    assert fan_out(listener) is listener
    assert fan_out(SilentObserver(), listener) is listener


def test_no_listener_is_silence():
    assert isinstance(fan_out(), SilentObserver)
    fan_out().report(CHANGE)


@pytest.mark.parametrize("name", [name for name in hooks.__all__ if hasattr(getattr(hooks, name), "__struct_fields__")])
def test_moments_are_frozen(name):
    kind = getattr(hooks, name)
    moment = kind(**dict.fromkeys(kind.__struct_fields__, 0))
    with pytest.raises(AttributeError):
        setattr(moment, kind.__struct_fields__[0], 1)
