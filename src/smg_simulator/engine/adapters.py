"""The LoRA adapters that the embedded engine holds.

Decides which adapters are there, which requests are refused, and why one cannot be loaded; pure. An adapter is no more here than
its id, name and path: the engine's texts differ with the id. Above: the engine, and the codecs of dialects with such calls.
"""

from collections.abc import Iterable, Iterator

import attrs

from smg_simulator.engine.refusal import Refused

__all__ = ["Adapters", "LoadedAdapter"]


@attrs.frozen
class LoadedAdapter:
    """An adapter: `id` is what requests name, `path` where it was loaded from."""

    id: str
    name: str
    path: str = ""
    pinned: bool = False


class Adapters:
    """The adapters of one engine, at most `most`, by their ids; at first those of `held`, which are (id, name)."""

    def __init__(self, held: Iterable[tuple[str, str]], most: int) -> None:
        self._most = most
        self._held = {id: LoadedAdapter(id, name) for id, name in held}

    def __iter__(self) -> Iterator[LoadedAdapter]:
        return iter(tuple(self._held.values()))

    def check(self, id: str | None) -> None:
        """Raise Refused for an adapter that is not held."""
        if id is not None and id not in self._held:
            raise Refused(f"The LoRA adapter {id} is not loaded.")

    def load(self, new: LoadedAdapter) -> str:
        """Hold `new`; "", or why that cannot be."""
        if not new.id or not new.name or not new.path:
            return "an adapter has a name, an id and a path"
        if any(new.id == each.id or new.name == each.name for each in self):
            return f"the adapter {new.name} is loaded already"
        if len(self._held) >= self._most:
            return f"at most {self._most} adapters can be loaded"
        self._held[new.id] = new
        return ""

    def unload(self, name: str, id: str) -> str:
        """Let go of the adapter; "", or why that cannot be."""
        if id not in self._held or self._held[id].name != name:
            return f"the adapter {name} is not loaded"
        del self._held[id]
        return ""
