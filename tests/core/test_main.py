"""The program `smg-gateway`: what happens before the first command is known."""

import subprocess
import sys

from tests.shared import PATIENCE

INTERRUPTED = """
import sys

class Impatient:
    def find_spec(self, name, *_):
        if name == "smg_core.config.config":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatient())
from smg_core.__main__ import main
sys.exit(main())
"""


def test_who_interrupts_while_it_is_loaded_reads_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
