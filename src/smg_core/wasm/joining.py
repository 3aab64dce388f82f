"""Joins a component with the adapter that stands before it, into one component.

The one that is made imports what the component imports, exports what it exports, and has one interface more, `PACKED`, whose
functions are those of the adapter: each takes one text and gives one (`fields`). Reads and writes the binary format of components
(https://github.com/WebAssembly/component-model, design/mvp/Binary.md). Pure. Above: `running`. Below: nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import attrs

__all__ = ["PACKED", "Broken", "Outline", "Passes", "outline", "with_adapter"]

PACKED = "packed"
"""The interface of the functions that take and give texts."""
Passes = Literal["text to text", "text to nothing", "nothing to text", "nothing"]
"""What a function of the adapter takes and gives."""

_PASSES: Final[tuple[Passes, ...]] = ("nothing", "text to text", "text to nothing", "nothing to text")
_CUSTOM, _CORE_MODULE, _CORE_INSTANCE, _COMPONENT, _INSTANCE, _ALIAS, _TYPE, _CANON, _IMPORT, _EXPORT = (
    0,
    1,
    2,
    4,
    5,
    6,
    7,
    8,
    10,
    11,
)
_SORT_CORE, _SORT_FUNCTION, _SORT_TYPE, _SORT_COMPONENT, _SORT_INSTANCE = 0, 1, 3, 4, 5
_CORE_FUNCTION, _CORE_MEMORY, _CORE_INSTANCE_SORT = 0, 2, 0x12
_OF_INSTANCE, _OF_CORE_INSTANCE, _OF_OUTER = 0, 1, 2
_STRING = b"\x73"
_UTF8, _IN_MEMORY, _WITH_ROOM, _AFTERWARDS = b"\x00", b"\x03", b"\x04", b"\x05"


class Broken(Exception):
    """What should be a component cannot be read as one, or is built in a way that is not known here."""


# ------------------------------------------------------------------------------------------------------------- reading


class _Reader:
    """Reads bytes one after the other. Raises Broken at their end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        """The next byte."""
        if self.at >= len(self.data):
            raise Broken("ends in the middle")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """The next number, in LEB128."""
        found, shift = 0, 0
        while shift < 35:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
        raise Broken("has a number that is too long")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self.at += size
        if self.at > len(self.data):
            raise Broken("ends in the middle")
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        """The next name."""
        try:
            return self.take(self.number()).decode()
        except UnicodeDecodeError:
            raise Broken("has a name that is no UTF-8") from None

    def outer_name(self) -> str:
        """The name of an import or an export."""
        if self.byte() > 1:
            raise Broken("has a name of another form")
        return self.text()

    def described(self) -> int:
        """The sort of what an import or export is described to be, of which the rest is passed over."""
        sort = self.byte()
        if sort == _SORT_CORE:
            self.byte()
        bounds_type = sort == _SORT_TYPE
        if not bounds_type or self.byte() == 0:
            self.number()
        return sort


def _sections(wasm: bytes) -> Iterator[tuple[int, bytes]]:
    reader = _Reader(wasm, 8)
    while reader.at < len(wasm):
        kind = reader.byte()
        yield kind, reader.take(reader.number())


@attrs.frozen
class Outline:
    """What is known of a component from its outside. `head` are its first sections, in which all its imports are: they stand at
    the beginning of every component that has the same imports. `types`: how many they define."""

    head: bytes
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    types: int


def outline(wasm: bytes) -> Outline:
    """The outline of a component. Raises Broken."""
    head, imports, exports, types, is_head = bytearray(), list[str](), list[str](), 0, True
    for kind, body in _sections(wasm):
        reader = _Reader(body)
        is_head = is_head and kind in (_TYPE, _ALIAS, _IMPORT, _CUSTOM)
        if kind == _IMPORT:
            if not is_head:
                raise Broken("has imports behind its code")
            for _ in range(reader.number()):
                imports.append(reader.outer_name())
                if reader.described() != _SORT_INSTANCE:
                    raise Broken(f"imports {imports[-1][:100]}, which is no interface")
        elif kind == _EXPORT:
            exports += [each for each in _exported(reader) if each]
        elif is_head and kind == _TYPE:
            types += reader.number()
        elif is_head and kind == _ALIAS:
            types += _aliased_types(reader)
        if is_head and kind != _CUSTOM:
            head += _section(kind, body)
    return Outline(bytes(head), tuple(imports), tuple(exports), types)


def _exported(reader: _Reader) -> Iterator[str]:
    for _ in range(reader.number()):
        yield reader.outer_name()
        if reader.byte() == _SORT_CORE:
            reader.byte()
        reader.number()
        if reader.byte():
            reader.described()


def _aliased_types(reader: _Reader) -> int:
    """How many types aliases define. Raises Broken for those of other things than types."""
    count = reader.number()
    for _ in range(count):
        if reader.byte() != _SORT_TYPE:
            raise Broken("takes other things than types of its imports")
        target = reader.byte()
        reader.number()
        if target == _OF_INSTANCE:
            reader.text()
        elif target == _OF_OUTER:
            reader.number()
        else:
            raise Broken("has an alias of another kind")
    return count


# ------------------------------------------------------------------------------------------------------------- writing


def _number(number: int) -> bytes:
    """A number in LEB128."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return _number(len(data)) + data


def _list(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return _number(len(found)) + b"".join(found)


def _section(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + _number(len(body)) + body


def _argument(name: str, instance: int) -> bytes:
    return _text(name) + bytes([_CORE_INSTANCE_SORT]) + _number(instance)


def _core_alias(sort: int, instance: int, name: str) -> bytes:
    return bytes([_SORT_CORE, sort, _OF_CORE_INSTANCE]) + _number(instance) + _text(name)


def _alias(sort: int, instance: int, name: str) -> bytes:
    return bytes([sort, _OF_INSTANCE]) + _number(instance) + _text(name)


def _types() -> bytes:
    """The types of the functions that pass texts, in the order of `_PASSES`."""
    text, nothing = _list([_text("text") + _STRING]), _list([])
    gives, gives_nothing = b"\x00" + _STRING, b"\x01\x00"
    return _list(
        b"\x40" + each for each in (nothing + gives_nothing, text + gives, text + gives_nothing, nothing + gives)
    )


_TAKE, _ANSWERED, _FIRST_LOWERED = 0, 1, 2  # core functions: two of the memory, then those of the component
_MEMORY, _GUEST, _ADAPTER = 0, 1, 2  # core instances


def with_adapter(
    wasm: bytes,
    known: Outline,
    found: Mapping[str, tuple[str, str]],
    passes: Mapping[str, Passes],
    *,
    memory: bytes,
    adapter: bytes,
) -> bytes:
    """A component with an adapter before it. `found` has, for each function that the component has, its interface and its name
    there; `passes` what each function of the adapter passes. `memory` and `adapter` are the two modules of the adapter."""
    interfaces = tuple(dict.fromkeys(interface for interface, _ in found.values()))
    instance = len(known.imports)  # that of the component, behind those that are imported
    return b"".join(
        [
            wasm[:8] + known.head,
            _section(_COMPONENT, wasm),
            _section(_INSTANCE, _list([b"\x00\x00" + _list(_instances(known.imports))])),
            _section(_CORE_MODULE, memory),
            _section(_CORE_MODULE, adapter),
            _section(_CORE_INSTANCE, _list([b"\x00\x00" + _list([])])),
            _section(_ALIAS, _list(_used(found, interfaces, instance))),
            *_adapter_instance(found, [each for each in passes if each not in found]),
            _section(_TYPE, _types()),
            *_packed(found, passes, known.types),
            _section(
                _EXPORT,
                _list(
                    b"\x00" + _text(name) + bytes([_SORT_INSTANCE]) + _number(instance + 1 + number) + b"\x00"
                    for number, name in enumerate([*interfaces, PACKED])
                ),
            ),
        ]
    )


def _used(found: Mapping[str, tuple[str, str]], interfaces: Sequence[str], instance: int) -> Iterator[bytes]:
    """The memory, and the interfaces and functions of the component."""
    yield _core_alias(_CORE_MEMORY, _MEMORY, "memory")
    yield _core_alias(_CORE_FUNCTION, _MEMORY, "take")
    yield _core_alias(_CORE_FUNCTION, _MEMORY, "answered")
    for each in interfaces:
        yield _alias(_SORT_INSTANCE, instance, each)
    for each, name in found.values():
        yield _alias(_SORT_FUNCTION, instance + 1 + interfaces.index(each), name)


def _adapter_instance(here: Collection[str], missing: Sequence[str]) -> Iterator[bytes]:
    """The instance of the adapter, whose imports are the functions of the component."""
    lowered = b"".join([_UTF8, _IN_MEMORY + _number(0), _WITH_ROOM + _number(_TAKE)])
    yield _section(_CANON, _list(b"\x01\x00" + _number(at) + _number(3) + lowered for at in range(len(here))))
    yield _section(_ALIAS, _list(_core_alias(_CORE_FUNCTION, _MEMORY, f"no_{name}") for name in missing))
    guest = _list(
        _text(name) + bytes([_CORE_FUNCTION]) + _number(_FIRST_LOWERED + at)
        for at, name in enumerate([*here, *missing])
    )
    imports = _list([_argument("env", _MEMORY), _argument("memory", _MEMORY), _argument("guest", _GUEST)])
    yield _section(_CORE_INSTANCE, _list([b"\x01" + guest, b"\x00\x01" + imports]))
    yield _section(_ALIAS, _list(_core_alias(_CORE_FUNCTION, _ADAPTER, name) for name in here))


def _packed(here: Collection[str], passes: Mapping[str, Passes], types: int) -> Iterator[bytes]:
    """The interface of the adapter's functions."""
    first = _FIRST_LOWERED + len(passes)  # behind the functions that the adapter imports
    yield _section(_CANON, _list(_lifted(first + at, passes[name], types) for at, name in enumerate(here)))
    functions = _list(
        b"\x00" + _text(name.replace("_", "-")) + bytes([_SORT_FUNCTION]) + _number(len(here) + at)
        for at, name in enumerate(here)
    )
    yield _section(_INSTANCE, _list([b"\x01" + functions]))


def _instances(names: Sequence[str]) -> Iterator[bytes]:
    return (_text(name) + bytes([_SORT_INSTANCE]) + _number(number) for number, name in enumerate(names))


def _lifted(function: int, passes: Passes, types: int) -> bytes:
    """A function of the adapter as one of the component."""
    options = [] if passes == "nothing" else [_UTF8, _IN_MEMORY + _number(0)]
    if passes.startswith("text"):
        options.append(_WITH_ROOM + _number(_TAKE))
    if passes.endswith("to text"):
        options.append(_AFTERWARDS + _number(_ANSWERED))
    return b"\x00\x00" + _number(function) + _list(options) + _number(types + _PASSES.index(passes))
