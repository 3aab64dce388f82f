"""Changes of single values in a text by a person, whose other lines stay as they are.

Decides what a change means for what the text says, and refuses one that cannot be made by touching its own lines. The forms are
in `toml_changes`, `json_changes` (with comments), `yaml_changes` and `env_changes`. Pure; YAML alone needs a package.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smg_config_files.env_changes import put_variable, read_variables
from smg_config_files.json_changes import put_member, read_commented
from smg_config_files.text import TextRefused, read_yaml
from smg_config_files.toml_changes import put_setting, read_toml
from smg_config_files.yaml_changes import ListItem, put_entry

__all__ = ["ChangeRefused", "Put", "with_changes"]


class ChangeRefused(ValueError):
    """A change that would touch lines that it does not name; the message says which value it is."""


@dataclass(frozen=True, slots=True)
class Put:
    """The value that is to stand at `path`, in place of what stands there; with `default` that stays. A path ends with a
    `ListItem` where the value is one of a list (in YAML alone)."""

    path: tuple[str | ListItem, ...]
    value: Any
    default: bool = False


_FORMS: Mapping[str, tuple[Callable[[str], Any], Callable[[str, Any, Any], str]]] = {
    "env": (read_variables, put_variable),
    "json": (read_commented, put_member),
    "toml": (read_toml, put_setting),
    "yaml": (read_yaml, put_entry),
}


def with_changes(text: str, form: str, puts: Sequence[Put]) -> str:
    """`text` with all changes made. `form` is env, json, toml or yaml. Raises TextRefused for a text that is none of it, and
    ChangeRefused; ModuleNotFoundError where PyYAML is not installed."""
    read, put = _FORMS[form]
    newline = "\r\n" if "\r\n" in text else "\n"
    for each in puts:
        before = read(text)
        wanted = _applied(before, each)
        if text and (before == wanted or (each.default and each.path[0] in (before or {}))):
            continue
        name = ".".join(part.value if isinstance(part, ListItem) else part for part in each.path)
        try:
            after = put(text, each.path, each.value)
            parsed = read(after)
        except (TextRefused, LookupError) as error:
            raise ChangeRefused(f"{name} cannot be written beside what is there: {error}") from None
        if parsed != wanted:
            raise ChangeRefused(f"{name} cannot be written without changing other lines")
        text = after if newline == "\n" else _with_line_ends(text, after)
    return text


def _with_line_ends(before: str, after: str) -> str:
    """`after` with the ends of lines that DOS has in what is new of it: the rest stays as it was, whatever its ends are."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    most = shorter - start
    end = next((at for at in range(most) if before[-1 - at] != after[-1 - at]), most)
    until = len(after) - end
    return after[:start] + after[start:until].replace("\r\n", "\n").replace("\n", "\r\n") + after[until:]


def _applied(value: Any, put: Put) -> Any:
    """What a text says after a change."""
    if not (value is None or isinstance(value, Mapping)):
        raise TextRefused("these are no settings", "these are no settings")
    root = at = dict(value or {})
    *outer, last = put.path
    listed = str(outer.pop()) if isinstance(last, ListItem) else ""
    for part in map(str, outer):
        at[part] = at = dict(_of_kind(at.get(part), Mapping, part) or {})
    if isinstance(last, ListItem):
        at[listed] = _with_item(_of_kind(at.get(listed), list, listed) or [], last, put.value)
    else:
        at[last] = put.value
    return root


def _of_kind(value: Any, kind: type, name: str) -> Any:
    if value is None or isinstance(value, kind):
        return value
    raise ChangeRefused(f"{name} is something else in this file")


def _with_item(items: list[Any], item: ListItem, value: Any) -> list[Any]:
    places = [at for at, each in enumerate(items) if item.is_in(each)]
    if len(places) > 1:
        raise ChangeRefused(f"two entries have the {item.key} {item.value}")
    return [*items[: places[0]], value, *items[places[0] + 1 :]] if places else [*items, value]
