"""Makes the Python form of our contracts from proto/, or checks that the committed form is fresh.

    python tools/proto.py            writes the modules *_pb2
    python tools/proto.py --check    fails if it is not what the .proto file says

What is committed is the compiled descriptor, a loader that uses protobuf's public functions only, and a type stub. So it loads
with any protobuf from 5 on (protoc's own Python output refuses a runtime that is older than the compiler, or two major versions
newer), and every version of grpcio-tools makes the same files.

Engines' own contracts are those of the package smg-grpc-proto, of the version that the extra `test` installs. They are loaded
into a pool of their own, so that a process can also load the modules of any other version of that package.
"""

import argparse
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import attrs
import grpc_tools
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
PROTO = ROOT / "proto"
ENGINES = Path(files("smg_grpc_proto").joinpath("proto"))  # type: ignore[arg-type]
ENGINES_NAME = f"smg-grpc-proto {version('smg-grpc-proto')}"


@attrs.frozen
class Contract:
    """One .proto file: its folder and path below it, where its Python form goes, and what it is."""

    below: Path
    source: str
    folder: Path
    what: str

    @property
    def own_pool(self) -> bool:
        return self.below == ENGINES

    @property
    def origin(self) -> str:
        return f"{ENGINES_NAME}, {self.source}" if self.own_pool else f"proto/{self.source}"


def _engines(source: str, what: str) -> Contract:
    return Contract(ENGINES, source, SRC / "smg_engine_contract" / "engines", what)


CONTRACTS = (
    Contract(
        PROTO, "smg/engine/v1/engine.proto", SRC / "smg_engine_contract", "the neutral engine contract, version 1"
    ),
    Contract(
        PROTO,
        "smg/simulator/v1/control.proto",
        SRC / "smg_simulator" / "server" / "_pb",
        "what may be changed in the embedded engine",
    ),
    _engines("common.proto", "what engines' contracts have alike"),
    _engines("mlx_engine.proto", "MLX's contract"),
    _engines("sglang_scheduler.proto", "SGLang's contract"),
    _engines("tokenspeed_encoder.proto", "TokenSpeed's contract of encoders"),
    _engines("tokenspeed_scheduler.proto", "TokenSpeed's contract"),
    _engines("trtllm_service.proto", "TensorRT-LLM's contract"),
    _engines("vllm_engine.proto", "vLLM's contract"),
)
WIDTH = 100

HEAD = '''# Made by tools/proto.py from {source}; do not edit.
"""The messages of {what}."""

{imports}

_FILE = {pool}.AddSerializedFile(
{data}
)


def _message(name):
    return message_factory.GetMessageClass(_FILE.message_types_by_name[name])


DESCRIPTOR = _FILE
'''


STUB_HEAD = """# Made by tools/proto.py from {source}; do not edit.
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Literal

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor
"""

Field = FieldDescriptorProto
SCALARS = {
    "int": (
        Field.TYPE_INT32,
        Field.TYPE_INT64,
        Field.TYPE_UINT32,
        Field.TYPE_UINT64,
        Field.TYPE_FIXED64,
        Field.TYPE_ENUM,
    ),
    "float": (Field.TYPE_DOUBLE, Field.TYPE_FLOAT),
    "bool": (Field.TYPE_BOOL,),
    "str": (Field.TYPE_STRING,),
    "bytes": (Field.TYPE_BYTES,),
}
TYPES = {number: name for name, numbers in SCALARS.items() for number in numbers}


def compiled(contract: Contract) -> FileDescriptorProto:
    """The descriptor of a contract."""
    well_known = str(Path(grpc_tools.__file__).parent / "_proto")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "set.bin"
        flags = [f"-I{contract.below}", f"-I{well_known}", f"--descriptor_set_out={target}"]
        if protoc.main(["protoc", *flags, contract.source]) != 0:
            raise SystemExit(1)
        (descriptor,) = FileDescriptorSet.FromString(target.read_bytes()).file
    return descriptor


def modules(contract: Contract) -> dict[str, str]:
    """What belongs into the folder: name to text."""
    descriptor, name = compiled(contract), Path(contract.source).stem
    data = descriptor.SerializeToString(deterministic=True)
    source = contract.origin
    module = HEAD.format(
        source=source,
        what=contract.what,
        imports=imports(contract, descriptor),
        pool="POOL" if contract.own_pool else "descriptor_pool.Default()",
        data="\n".join(f"    {data[at : at + WIDTH]!r}" for at in range(0, len(data), WIDTH)),
    )
    stub = STUB_HEAD.format(source=source)
    for message in descriptor.message_type:
        module += f'{message.name} = _message("{message.name}")\n'
        stub += "" if contract.own_pool else message_stub(message)
    stub += "\n"
    for enum in descriptor.enum_type:
        module += "".join(f"{value.name} = {value.number}\n" for value in enum.value)
        stub += "".join(f"{value.name}: int\n" for value in enum.value)
    made = {f"{name}_pb2.py": module}
    if not contract.own_pool:  # the others are nested too deeply for stubs of this kind
        made[f"{name}_pb2.pyi"] = stub
    if contract.folder.name == "_pb":
        made["__init__.py"] = '"""Made by tools/proto.py; do not edit."""\n'
    return made


def imports(contract: Contract, descriptor: FileDescriptorProto) -> str:
    """The imports of a module: those of its pool, and the modules whose messages its own ones have in them."""
    if not contract.own_pool:
        return "from google.protobuf import descriptor_pool, message_factory"
    others = sorted(Path(each).stem for each in descriptor.dependency if not each.startswith("google/"))
    lines = [f"from smg_engine_contract.engines import {each}_pb2 as {each}_pb2" for each in others]
    return "\n".join(
        ["from google.protobuf import message_factory\n", *lines, "from smg_engine_contract.engines.pool import POOL"]
    )


def message_stub(message: DescriptorProto) -> str:
    """A message as a class: its fields, what its constructor takes, and its presence tests."""
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    lines, given = [], []
    for field in message.field:
        held, taken = field_types(field, maps)
        lines.append(f"    {field.name}: {held}")
        given.append(f"{field.name}: {taken} | None = ...")
    arguments = "".join(f"        {each},\n" for each in given)
    lines.append(
        f"    def __init__(\n        self,\n        *,\n{arguments}    ) -> None: ..." if given else "    pass"
    )
    for number, oneof in enumerate(message.oneof_decl):
        members = [
            field.name for field in message.field if field.HasField("oneof_index") and field.oneof_index == number
        ]
        if not any(field.proto3_optional for field in message.field if field.name in members):
            names = ", ".join(f'"{name}"' for name in members)
            lines.append(
                f'    def WhichOneof(self, oneof_group: Literal["{oneof.name}"]) -> Literal[{names}] | None: ...'
            )
    body = "\n".join(lines)
    return f"\n\nclass {message.name}(Message):\n{body}\n"


def field_types(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> tuple[str, str]:
    """What a field holds, and what the constructor takes for it."""
    name = field.type_name.rpartition(".")[2]
    if name in maps:
        key, value = (TYPES[each.type] for each in maps[name].field)
        return f"MutableMapping[{key}, {value}]", f"Mapping[{key}, {value}]"
    one = TYPES.get(field.type) or f'"{name}"'
    if field.label == Field.LABEL_REPEATED:
        return f"MutableSequence[{one}]", f"Iterable[{one}]"
    return one, one


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the Python form of the contracts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the committed form is stale")
    check = parser.parse_args().check
    stale = []
    for contract in CONTRACTS:
        for name, text in modules(contract).items():
            path = contract.folder / name
            if path.exists() and path.read_text() == text:
                continue
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    if stale and check:
        print(f"stale: {', '.join(stale)}; run make proto")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
