"""The command `smg-gateway interpreter`: builds the Python in which models run code (edge).

Above: cli. Below: `containers.interpreter.building`.
"""

import argparse
import os
from pathlib import Path

__all__ = ["interpreter_flags", "interpreter_folder"]


def interpreter_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `interpreter`, which has the command `build`."""
    whats = parser.add_subparsers(title="commands", required=True, metavar="build", dest="what")
    text = "make the interpreter by componentize-py, compile it for this machine, and say how the gateway is told of it"
    build = whats.add_parser("build", help=text, description=text, allow_abbrev=False)
    build.add_argument("--out", metavar="FOLDER", help="where it is put (default: a folder of the user's cache)")
    build.add_argument(
        "--componentize-py",
        metavar="PATH",
        help="the program componentize-py, where it is installed in another environment (default: the one that is found)",
    )
    build.set_defaults(run=_build)


def _build(args: argparse.Namespace) -> int:
    from smg_core.containers.interpreter.building import build_interpreter

    folder = Path(args.out).expanduser() if args.out else interpreter_folder()
    print(f"Building the interpreter in {folder}, which takes a minute or two ...", flush=True)
    made = build_interpreter(folder, args.componentize_py)
    print(
        f"{made.name}: {made.stat().st_size >> 20} MiB. Serve with it: smg-gateway serve --containers-interpreter {folder}"
    )
    return 0


def interpreter_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smg-gateway" / "interpreter"
