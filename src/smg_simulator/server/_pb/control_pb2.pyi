# Made by tools/proto.py from proto/smg/simulator/v1/control.proto; do not edit.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Literal

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor


class Fault(Message):
    kind: str
    after: int
    seconds: float
    status: str
    message: str
    def __init__(
        self,
        *,
        kind: str | None = ...,
        after: int | None = ...,
        seconds: float | None = ...,
        status: str | None = ...,
        message: str | None = ...,
    ) -> None: ...


class Turn(Message):
    fault: "Fault"
    def __init__(
        self,
        *,
        fault: "Fault" | None = ...,
    ) -> None: ...


class Rate(Message):
    fault: "Fault"
    share: float
    def __init__(
        self,
        *,
        fault: "Fault" | None = ...,
        share: float | None = ...,
    ) -> None: ...


class SetFaultsRequest(Message):
    script: MutableSequence["Turn"]
    rates: MutableSequence["Rate"]
    clear: bool
    def __init__(
        self,
        *,
        script: Iterable["Turn"] | None = ...,
        rates: Iterable["Rate"] | None = ...,
        clear: bool | None = ...,
    ) -> None: ...


class GetFaultsRequest(Message):
    pass


class FaultPlan(Message):
    waiting: int
    rates: MutableSequence["Rate"]
    met: int
    def __init__(
        self,
        *,
        waiting: int | None = ...,
        rates: Iterable["Rate"] | None = ...,
        met: int | None = ...,
    ) -> None: ...

