"""Copies of exceptions without their words: what a log may show of a fault that nobody has foreseen.

The text of such an exception can hold a part of a prompt, an answer or a key: `int("a client's text")` repeats what it was given.
The class and the lines of code it came through cannot. Above: `faults` and `logs`, which write tracebacks. Pure.
"""

from types import TracebackType

__all__ = ["without_words"]

_MOST = 32
"""Exceptions of one fault that are shown: causes, what was under way, and the members of groups."""


def without_words(error: BaseException) -> BaseException:
    """A copy that prints as the same traceback with the same classes, and without any text; so do its causes and the members of
    a group. Never raised; the copy has the error's frames."""
    return _Copying(_MOST).copy(error)


class _Copying:
    """Copies at most `most` exceptions, each once: they can lead to each other in a circle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._copies: dict[int, BaseException] = {}

    def copy(self, error: BaseException) -> BaseException:
        if id(error) in self._copies:
            return self._copies[id(error)]
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        made = _made(type(error), error.__traceback__, [self.copy(each) for each in members[: self._left]])
        self._copies[id(error)] = made
        made.__cause__ = self._next(error.__cause__)
        made.__context__ = self._next(error.__context__)
        made.__suppress_context__ = error.__suppress_context__  # last: setting a cause sets it
        return made

    @property
    def _left(self) -> int:
        return max(1, self._most - len(self._copies))

    def _next(self, error: BaseException | None) -> BaseException | None:
        return self.copy(error) if error is not None and len(self._copies) < self._most else None


def _made(kind: type[BaseException], traceback: TracebackType | None, members: list[BaseException]) -> BaseException:
    """An exception without text whose class is called as `kind` is."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if members:
        made: BaseException = type(kind.__name__, (BaseExceptionGroup,), names)("", members)
    else:
        made = type(kind.__name__, (BaseException,), names)()
    return made.with_traceback(traceback)
