"""Makes the distributions of this repository: what a project file beside this one leaves to the root, and where its files are.

Each folder here has a pyproject.toml that says what one distribution is: its packages, and the names of what it needs. All else
stands once, in the pyproject.toml of the root: the version, the Python that is needed, the licence, and the range of versions of
every dependency. hatchling calls the classes below: one fills in the metadata, the other takes the packages from `src`, and what
belongs to them from other folders (`files`). A source distribution has both written out, so that it is an ordinary project
without the root.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OF_THE_ROOT = ("requires-python", "license", "keywords", "classifiers")
PRIVATE = "Private :: Do Not Upload"


class Metadata(MetadataHookInterface):
    """The metadata of one distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        here = Path(self.root)
        root = tomllib.loads((here.parent.parent / "pyproject.toml").read_text())["project"]
        own = tomllib.loads((here / "pyproject.toml").read_text())["tool"]["smg"]
        for field in OF_THE_ROOT:
            metadata[field] = root[field]
        metadata["classifiers"] = [each for each in root["classifiers"] if each != PRIVATE]
        metadata["license-files"] = ["LICENSE"]
        metadata["readme"] = "README.md"
        metadata["version"] = version = _version(here.parent.parent)
        ranges = _ranges(root)
        metadata["dependencies"] = [_with_range(each, ranges, version) for each in own["dependencies"]]
        metadata["optional-dependencies"] = {
            extra: [_with_range(each, ranges, version) for each in names]
            for extra, names in own.get("extras", {}).items()
        }


class Build(BuildHookInterface[Any]):
    """The files of one distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        here = Path(self.root)
        root = here.parent.parent
        own = tomllib.loads((here / "pyproject.toml").read_text())["tool"]["smg"]
        included = build_data["force_include"]
        for package in own["packages"]:
            if self.target_name == "sdist":
                included[str(root / "src" / package)] = f"src/{package}"
            elif version != "editable":
                included[str(root / "src" / package)] = package
        for source, target in own.get("files", {}).items():
            if self.target_name == "sdist" or version != "editable":
                included[str(root / source)] = f"src/{target}" if self.target_name == "sdist" else target
        if self.target_name == "sdist":
            made = Path(self.directory) / "pyproject.toml"
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(self._written_out(own["packages"]))
            del included[str(here / "pyproject.toml")], included[str(here / "LICENSE")]
            included |= {str(made): "pyproject.toml", str(root / "LICENSE"): "LICENSE"}

    def _written_out(self, packages: list[str]) -> str:
        """The project file of a source distribution."""
        core = self.metadata.core
        tables: dict[str, dict[str, Any]] = {
            "build-system": {"requires": ["hatchling>=1.27"], "build-backend": "hatchling.build"},
            "project": {
                "name": core.name,
                "version": core.version,
                "description": core.description,
                "readme": "README.md",
                "requires-python": core.requires_python,
                "license": core.license_expression,
                "license-files": ["LICENSE"],
                "keywords": core.keywords,
                "classifiers": core.classifiers,
                "dependencies": core.dependencies,
            },
            "project.optional-dependencies": dict(core.optional_dependencies),
            "project.scripts": dict(core.scripts),
            **{f"project.entry-points.{group}": dict(rows) for group, rows in core.entry_points.items()},
            "tool.hatch.build.targets.wheel": {
                "packages": [f"src/{each}" for each in packages],
                "bypass-selection": True,
            },
        }
        return "\n".join(
            f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in rows.items())
            for name, rows in tables.items()
            if rows
        )


def _version(root: Path) -> str:
    """The version of all distributions."""
    (line,) = re.findall(
        r'^SDK_VERSION = "(.+)"$', (root / "src" / "smg_core" / "version.py").read_text(), re.MULTILINE
    )
    return str(line)


def _ranges(root: dict[str, Any]) -> dict[str, Requirement]:
    """The range of versions that the root has for each package. Raises ValueError where it has two."""
    found: dict[str, Requirement] = {}
    for line in (*root["dependencies"], *(each for extra in root["optional-dependencies"].values() for each in extra)):
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        known = found.setdefault(name, requirement)
        if name != root["name"] and str(known) != str(requirement):
            raise ValueError(f"pyproject.toml has two ranges of {name}: {known} and {requirement}")
    return found


def _with_range(name: str, ranges: dict[str, Requirement], version: str) -> str:
    """A dependency as the metadata has it: one of ours in this version, any other in the root's range."""
    asked = Requirement(name)
    if asked.name.startswith("smg-"):
        return f"{asked}=={version}"
    return str(ranges[canonicalize_name(asked.name)])
