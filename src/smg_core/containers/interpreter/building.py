"""Makes the interpreter: a component of the guest's module, by componentize-py, compiled for this machine (edge).

componentize-py brings Python itself; nothing of it is in our packages. It is a program that is called, so that it need not be
installed where the gateway runs. Above: the command. Below: `guest`, wasmtime.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from smg_core.extras import loaded
from smg_core.settings import ConfigError

__all__ = ["build_interpreter", "compiled_interpreter"]

_SOURCE = files("smg_core.containers.interpreter")
_APP = "from guest import WitWorld, gather\n\n__all__ = ['WitWorld']\ngather()\n"
_STACK = 1 << 20  # as in `program`: what is compiled for another stack cannot be used
_BUILD_S = 900.0


def compiled_interpreter(folder: Path) -> Path:
    """Where the interpreter lies in a folder that `build_interpreter` has filled. Raises ConfigError where it is not there, or
    was made for another version of wasmtime."""
    found = folder / _name()
    if not found.is_file():
        raise ConfigError(
            f"containers.interpreter: there is no {found}, which is the interpreter for the wasmtime that is installed; make it "
            f"with `smg-gateway interpreter build --out {folder}`"
        )
    return found


def _name() -> str:
    """The name of the file: what one version of wasmtime has compiled, another cannot use."""
    loaded("the interpreter", "wasmtime")
    return f"python-wasmtime-{version('wasmtime')}.cwasm"


def build_interpreter(folder: Path, componentize: str | None = None) -> Path:
    """Make the interpreter in `folder`, and return where it lies. `componentize` is the program componentize-py, without it the
    one that is installed. Takes a minute. Raises ConfigError."""
    program = componentize or _installed()
    target = folder / _name()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            component = _component(program, Path(work))
            made = Path(work, "made")
            made.write_bytes(_compiled(component))
            made.replace(target)
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}") from None
    return target


def _installed() -> str:
    neighbour = Path(sys.executable).with_name("componentize-py")
    found = str(neighbour) if neighbour.is_file() else shutil.which("componentize-py")
    if found is None:
        raise ConfigError(
            "componentize-py is not installed: pip install componentize-py (in any environment), or say where it is with "
            "--componentize-py PATH"
        )
    return found


def _compiled(component: bytes) -> bytes:
    """A component as this machine runs it."""
    from wasmtime import Config, Engine
    from wasmtime.component import Component

    config = Config()
    config.max_wasm_stack = _STACK
    return bytes(Component(Engine(config), component).serialize())


def _component(program: str, work: Path) -> bytes:
    """The component. Raises ConfigError with the words of componentize-py."""
    for name in ("guest.py", "interpreter.wit"):
        (work / name).write_text((_SOURCE / name).read_text(encoding="utf-8"), encoding="utf-8")
    (work / "app.py").write_text(_APP, encoding="utf-8")
    call = [program, "-d", "interpreter.wit", "-w", "interpreter", "componentize", "app", "-o", "python.wasm"]
    try:
        done = subprocess.run(  # noqa: S603 (the operator names the program)
            call, cwd=work, capture_output=True, text=True, timeout=_BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"componentize-py has not ended in {_BUILD_S:.0f} s") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise ConfigError(f"componentize-py has failed: {output[-1][:500]}")
    return (work / "python.wasm").read_bytes()
