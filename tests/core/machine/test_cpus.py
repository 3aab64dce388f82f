"""How many CPUs a process may use where its container or service has less than the machine."""

import math
from pathlib import Path

import pytest

from smg_core.machine.cpus import granted_cpus, usable_cpus

TWO = {"/proc/self/cgroup": "0::/system.slice/smg.service\n"}
ONE = {"/proc/self/cgroup": "12:cpuset:/a\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/a\n0::/unused\n"}


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({}, math.inf),
        (TWO, math.inf),
        ({**TWO, "/sys/fs/cgroup/system.slice/smg.service/cpu.max": "150000 100000\n"}, 1.5),
        ({**TWO, "/sys/fs/cgroup/system.slice/smg.service/cpu.max": "max 100000\n"}, math.inf),
        ({**TWO, "/sys/fs/cgroup/system.slice/cpu.max": "50000 100000\n"}, 0.5),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),
        ({"/proc/self/cgroup": "0::/../pod\n", "/sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),
        ({**TWO, "/sys/fs/cgroup/system.slice/cpu.max": "nonsense"}, math.inf),
        ({**TWO, "/sys/fs/cgroup/system.slice/cpu.max": "1 0"}, math.inf),
        (
            {
                **ONE,
                "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us": "200000\n",
                "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        (
            {
                **ONE,
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            math.inf,
        ),
    ],
)
def test_the_least_that_a_control_group_or_one_above_grants_counts(files: dict[str, str], granted: float) -> None:
    assert granted_cpus(lambda path: files.get(str(path))) == granted


def test_this_process_may_use_some_cpus() -> None:
    assert usable_cpus() >= 1
    assert Path("/proc/self").exists() is False or granted_cpus(lambda path: None) == math.inf
