"""Texts in memory as wasmtime's C interface reads and writes them.

Above: `running`, `written`. Below: ctypes.
"""

import ctypes
import struct
from typing import Final

__all__ = ["CELL", "Arguments", "Malformed", "cell_text", "put_text"]

CELL = 32
"""Bytes of `wasmtime_component_val_t`."""
_STRING = 12  # the kind of a cell of a string
_TEXT_CELL = struct.Struct("<B7xQQ8x")
_MEMORY: Final = memoryview((ctypes.c_char * ((1 << 47) - 1)).from_address(0)).cast("B")
"""All memory that a process may have, by its addresses: what `ctypes.string_at` reads, in half the time. Only addresses that
wasmtime gave may be read."""
_address_of: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))


class Malformed(Exception):
    """An answer is no text."""


class Arguments:
    """The text of a call, which several instances may be called with. It stays where it is as long as this is kept. `size` is
    that of its bytes."""

    __slots__ = ("_data", "address", "size")

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self.address: int = _address_of(self._data)
        self.size = len(self._data)


def put_text(cell: "ctypes.Array[ctypes.c_char]", arguments: Arguments) -> None:
    """Write the cell of a text."""
    _TEXT_CELL.pack_into(cell, 0, _STRING, arguments.size, arguments.address)


def cell_text(cell: "ctypes.Array[ctypes.c_char]") -> str:
    """The text of a cell. Raises Malformed."""
    kind, size, address = _TEXT_CELL.unpack_from(cell)
    if kind != _STRING:
        raise Malformed(f"a value of kind {kind} in place of a text")
    try:
        return str(_MEMORY[address : address + size], "utf-8") if size else ""
    except UnicodeDecodeError:
        raise Malformed("a text that is no UTF-8") from None
