"""Real clients before a real gateway: `make test-clients`. The results are written to docs/clients.md by the run itself."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.clients.gateway import NOTE
from tests.clients.page import Case, page, remember
from tests.clients.versions import install, version

PAGE = os.environ.get("SMG_CLIENTS_PAGE")
CASES: list[Case] = []


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder; pytest calls this for no others."""
    item.add_marker(pytest.mark.clients)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of a case: its test's call, or whatever failed before."""
    told = dict(report.user_properties)
    if "client" in told and (report.when == "call" or report.failed):
        CASES.append(
            Case(told["client"], version(told["client"]), str(told["case"]), str(told.get("seen", "")), report.passed)
        )


def pytest_sessionfinish() -> None:
    """Add what came of this run to what is known of the same versions, and write the page of all."""
    if PAGE and CASES:
        Path(PAGE).write_text(page(remember(CASES)))


@pytest.fixture(autouse=True)
def named(request: pytest.FixtureRequest, record_property: pytest.FixtureRequest) -> None:
    """Name the client and the case in the report: the first is the module's CLIENT, the second the test's name."""
    record_property("client", request.module.CLIENT)
    record_property("case", case_name(request.node.originalname, getattr(request.node, "callspec", None)))


def case_name(test: str, callspec: Any) -> str:
    """The words of a test's name, and the id of its parameters."""
    words = test.removeprefix("test_").replace("_", " ")
    ids = [each for each in getattr(callspec, "_idlist", []) if each != "asyncio"]
    return f"{words}: {', '.join(ids)}" if ids else words


@pytest.fixture(scope="session")
def npm() -> Path:
    """The folder that npm's packages are installed in."""
    return install()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A scratch folder for a client to work in, with note.txt."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "note.txt").write_text(NOTE + "\n")
    return folder
