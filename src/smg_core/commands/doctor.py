"""The command `smg-gateway doctor` (edge): prints what is wrong with a deployment, and what to do about it.

What is looked at is imported when it is run. Above: cli. Below: diagnosing.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import attrs

from smg_core.clock import SystemClock
from smg_core.config.config import Config
from smg_core.settings import number_flag

__all__ = ["doctor", "doctor_flags"]


def doctor_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway doctor` beside the settings."""
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    text = "seconds that each engine and store may take (default: %(default)s)"
    parser.add_argument("--timeout", type=number_flag(float, 0.1, 600), default=5.0, help=text)


def doctor(config: Config, problems: Sequence[str], *, timeout: float, as_json: bool) -> int:
    """Look at the deployment of a configuration, with `problems` that were found in it before; the exit status: 1 where something
    fails."""
    import asyncio

    from smg_core.commands.diagnosing import diagnoses
    from smg_core.commands.diagnosis import Diagnosis

    async def printed() -> list[Diagnosis]:
        found = []
        async for each in diagnoses(config, problems, timeout, SystemClock()):
            found.append(each)
            if not as_json:
                print(f"{each.state:<5} {each.area:<13} {each.what}")
                if each.do:
                    print(f"{'':<19} -> {each.do}")
                sys.stdout.flush()  # what waits for its time-out is still to come
        return found

    found = asyncio.run(printed())
    if as_json:
        print(json.dumps([attrs.asdict(each) for each in found]))
    return 1 if any(each.state == "FAIL" for each in found) else 0
