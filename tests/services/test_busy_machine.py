"""The gateway's tests beside programs that keep every core busy: what they assert must not depend on the machine's mood."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

ROOT = Path(__file__).parent.parent.parent
# Those of tests/gateway in which time plays a part, and which fit into two minutes beside the load.
FILES = ("test_chaos.py", "test_disconnect.py", "test_http.py")


@pytest.fixture
def load() -> Iterator[None]:
    """Four busy processes."""
    program = shutil.which("stress-ng")
    assert program is not None, "stress-ng is not here; tools/services.sh installs it"
    with subprocess.Popen([program, "--cpu", "4", "--timeout", "600", "--quiet"]) as stress:
        yield
        stress.terminate()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("load")
def test_the_gateways_tests_pass_on_a_busy_machine() -> None:
    files = [f"tests/gateway/{name}" for name in FILES]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--timeout", "300", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout[-8000:]
