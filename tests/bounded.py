"""The gateway's command, with arguments of its records that are no settings: `python -m tests.bounded serve ...`.

Tests and benchmarks turn bounds that operators cannot, such as the pause before a process is started again. They write them as a
flag or as a variable, as if they were settings; here they become the defaults of their records, in this process and in those that
it starts, before the command runs.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence
from contextlib import contextmanager
from typing import Any

import attrs

from smg_core.config.config import Config, describe_arguments
from smg_core.settings import from_text

__all__ = ["defaults", "given", "set_defaults", "taken"]

VARIABLE = "TEST_ARGUMENTS"
"""What hands the values on to further processes, as JSON."""


def set_defaults(values: Mapping[str, Any]) -> None:
    """From now on records of settings that code makes have these values by default; the keys are paths."""
    rooms = {each.name: each.type for each in attrs.fields(Config)}
    for path, value in values.items():
        room, _, name = path.partition(".")
        made: Any = rooms[room]
        names = [each.name for each in attrs.fields(made) if each.default is not attrs.NOTHING]
        found = dict(zip(names, made.__init__.__defaults__, strict=True))
        found[name] = value
        made.__init__.__defaults__ = tuple(found.values())


@contextmanager
def defaults(values: Mapping[str, Any]) -> Iterator[None]:
    """Records of settings that code makes have these values by default while this lasts; the keys are paths."""
    own = {each.path: each.default for each in describe_arguments() if each.path in values}
    set_defaults(values)
    try:
        yield
    finally:
        set_defaults(own)


def taken(arguments: MutableSequence[str], environ: MutableMapping[str, str]) -> dict[str, Any]:
    """The values of arguments that are no settings, by path; they are removed from where they stood."""
    found: dict[str, Any] = {}
    for each in describe_arguments():
        if each.env in environ:
            found[each.path] = from_text(each, environ.pop(each.env))
        while each.flag in arguments:
            at = arguments.index(each.flag)
            words = 1 if each.kind == "boolean" else 2
            found[each.path] = True if words == 1 else from_text(each, arguments[at + 1])
            del arguments[at : at + words]
    return found


# At the import, since the processes that this one starts import it again.
given = sys.argv[1:]
"""What is left of this process's arguments."""
_values = json.loads(os.environ.get(VARIABLE, "{}")) | taken(given, os.environ)
os.environ[VARIABLE] = json.dumps(_values)
set_defaults(_values)

if __name__ == "__main__":
    from smg_core.cli import main

    sys.argv[1:] = given
    sys.exit(main())
