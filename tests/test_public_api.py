"""`__all__` of every module is what is there: nothing promised that is missing, nothing listed twice, in one order."""

import importlib
import importlib.metadata
import pkgutil

import pytest

import smg_config_files
import smg_core
import smg_egress
import smg_engine_contract
import smg_mcp
import smg_multimodal
import smg_parsers
import smg_simulator

pytestmark = pytest.mark.rules

PACKAGES = [
    smg_config_files,
    smg_core,
    smg_egress,
    smg_engine_contract,
    smg_mcp,
    smg_multimodal,
    smg_parsers,
    smg_simulator,
]
MODULES = [package.__name__ for package in PACKAGES] + sorted(
    found.name
    for package in PACKAGES
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "._" not in found.name  # generated code, and __main__
)
FRONT_DOORS = {package.__name__ for package in PACKAGES}  # may list by topic what they gather from their modules


def in_order(names: list[str]) -> list[str]:
    """As ruff sorts them: constants, then classes, then functions; each by the alphabet."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_exports_what_it_says(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])

    assert [each for each in exported if not hasattr(module, each)] == []
    assert len(set(exported)) == len(exported)
    assert name in FRONT_DOORS or list(exported) == in_order(list(exported))


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("smg_core.", "smg_simulator."))])
def test_a_module_of_the_core_with_public_classes_lists_them(name: str) -> None:
    module = importlib.import_module(name)
    public = [
        each
        for each, value in vars(module).items()
        if not each.startswith("_") and getattr(value, "__module__", None) == name and isinstance(value, type)
    ]

    assert not public or hasattr(module, "__all__"), f"{name} defines {public} and has no __all__"


def test_the_front_door() -> None:
    assert sorted(smg_core.__all__) == ["Config", "Gateway", "WorkerSpec", "__version__"]
    assert smg_core.Gateway.__module__ == "smg_core.gateway.gateway"


def test_the_version_is_the_distributions() -> None:
    assert smg_core.__version__ == importlib.metadata.version("smg-sdk")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_here"):
        smg_core.nothing_here  # noqa: B018
