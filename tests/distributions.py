"""The distributions of this repository: what their project files say, their wheels, and environments that have them alone."""

import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import attrs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "distributions"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
BUILD = """
import os, sys
from hatchling.build import build_sdist, build_wheel
for folder in sys.argv[2:]:
    os.chdir(folder)
    build_wheel(sys.argv[1])
    build_sdist(sys.argv[1])
"""


@attrs.frozen
class Project:
    """What one project file says."""

    name: str
    packages: tuple[str, ...]
    dependencies: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]
    files: dict[str, str]


@cache
def project(name: str) -> Project:
    own = tomllib.loads((FOLDER / name / "pyproject.toml").read_text())["tool"]["smg"]
    extras = {extra: tuple(names) for extra, names in own.get("extras", {}).items()}
    return Project(name, tuple(own["packages"]), tuple(own["dependencies"]), extras, own.get("files", {}))


@cache
def of_the_root() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def brought(name: str, extras: tuple[str, ...] = (), *, ours: bool = False) -> frozenset[str]:
    """The packages of others that a distribution brings with these extras, by way of ours too; or those of ours, itself among
    them."""
    found, seen = set[str](), set[tuple[str, str]]()

    def visit(dependency: Requirement) -> None:
        own = canonicalize_name(dependency.name)
        if own not in NAMES:
            found.add(own)
            return
        for extra in ("", *dependency.extras):
            if (own, extra) not in seen:
                seen.add((own, extra))
                rows = project(own).extras[extra] if extra else project(own).dependencies
                for row in rows:
                    visit(Requirement(row))

    visit(Requirement(f"{name}[{','.join(extras)}]"))
    return frozenset({each for each, _ in seen} if ours else found)


def with_their_own(names: frozenset[str]) -> Iterator[metadata.Distribution]:
    """Installed distributions, and those that they need themselves."""
    waiting, seen = [Requirement(name) for name in sorted(names)], set[str]()
    while waiting:
        asked = waiting.pop()
        key = canonicalize_name(asked.name)
        try:
            found = metadata.distribution(key)
        except metadata.PackageNotFoundError:
            continue  # for other systems
        if str(asked) in seen:
            continue
        if key not in seen:
            yield found
        seen |= {key, str(asked)}
        for line in found.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": each}) for each in ("", *asked.extras)):
                waiting.append(needed)


def build(folder: Path, names: list[str]) -> None:
    """Make the wheels and the source distributions."""
    command = [sys.executable, "-c", BUILD, str(folder), *(str(FOLDER / name) for name in names)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise AssertionError(made.stderr)


def wheel_of(folder: Path, name: str) -> Path:
    (found,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return found


class Environment:
    """A virtual environment that has some of our wheels, and of others' packages those alone that our metadata names."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        (self._site,) = folder.glob("lib/python*/site-packages")
        self._folder = folder

    def add(self, names: frozenset[str]) -> None:
        """Have packages of others, as links to those of this environment."""
        for found in with_their_own(names):
            for file in found.files or ():
                source, target = Path(str(file.locate())), self._site / file
                if file.parts[0] != ".." and source.exists() and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.symlink_to(source)

    def pip(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def install(self, wheels: Path, names: frozenset[str]) -> None:
        """Have wheels of ours, with what they bring. A wheel is an archive that is unpacked: this takes pip a second each."""
        self.add(frozenset().union(*(brought(name) for name in names)))
        for name in names:
            with zipfile.ZipFile(wheel_of(wheels, name)) as archive:
                archive.extractall(self._site)

    def run(self, *arguments: str, status: int = 0) -> str:
        """What a Python process prints; its errors too, where it fails as it should."""
        return self._run([str(self.python), "-W", "ignore", *arguments], status)

    def _run(self, command: list[str], status: int) -> str:
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SMG_"))}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=plain, cwd=self._folder)
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr if status else ran.stdout
