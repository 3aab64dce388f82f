"""The file of the audit log: one chain over restarts, crashes, processes and files."""

import errno
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.shared import PATIENCE

from smg_core.cli import main
from smg_core.observability.audit_file import AuditFile, AuditFileBroken
from smg_core.observability.settings import AuditConfig

WRITER = """
import sys
from smg_core.observability.audit_file import AuditFile
from smg_core.observability.settings import AuditConfig
file = AuditFile(AuditConfig(file=sys.argv[1], fsync="never", file_bytes=65536), lambda: "now", lambda prefix: prefix + "1")
for number in range(int(sys.argv[3])):
    file.append({"event": "asked", "path": f"/{sys.argv[2]}/{number}", "principal": "p" * 200})
"""


def log_at(path: Path, **settings: object) -> AuditFile:
    names = itertools.count(1)
    return AuditFile(
        AuditConfig(file=str(path), **settings),  # type: ignore[arg-type]
        lambda: "2026-11-23T16:00:00.000Z",
        lambda prefix: f"{prefix}{next(names)}",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str]]]:
    def run(*arguments: object) -> tuple[int, str]:
        status = main(["audit-log", "verify", *map(str, arguments)])
        return status, capsys.readouterr().out

    return run


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_file_is_private_and_has_a_line_for_each_entry_behind_the_one_that_names_the_chain(path, verify) -> None:
    for event in ("asked", "done"):
        log_at(path).append({"event": event})

    status, told = verify(path)
    assert [line["event"] for line in lines_of(path)] == ["chain_started", "asked", "done"]
    assert [line["seq"] for line in lines_of(path)] == [1, 2, 3]
    assert {line["chain"] for line in lines_of(path)} == {"audit-1"}
    assert (path.stat().st_mode & 0o777, status) == (0o600, 0)
    assert "lines 1 to 3" in told


def test_a_changed_line_is_named_with_status_one(path, verify) -> None:
    log = log_at(path)
    for number in range(4):
        log.append({"event": "asked", "path": f"/{number}"})
    path.write_bytes(path.read_bytes().replace(b'"/2"', b'"/9"'))

    status, told = verify(path)
    assert status == 1
    assert f"{path}:4" in told
    assert "line 3 and those before it hold" in told


def test_a_missing_end_is_found_with_the_head_and_by_the_next_line_that_is_written(path, verify, caplog) -> None:
    log = log_at(path)
    for _ in range(4):
        head = log.append({"event": "asked"})
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))

    assert verify(path)[0] == 0
    assert verify("--head", head, path)[0] == 1
    log_at(path).append({"event": "asked"})
    assert "was cut" in caplog.text
    status, told = verify(path)
    assert status == 1
    assert f"{path}:4: is line 6 and does not follow line 3" in told


def test_a_file_that_is_gone_is_found_by_the_next_line(path, verify, caplog) -> None:
    log_at(path).append({"event": "asked"})
    path.unlink()
    log_at(path).append({"event": "asked"})

    assert "is gone" in caplog.text
    assert verify(path)[0] == 1


@pytest.mark.full
def test_what_a_crash_left_stays_and_the_chain_goes_on(path, verify) -> None:
    log_at(path).append({"event": "asked"})
    with path.open("ab") as file:
        file.write(b'{"seq":3,"chain":"au')
    log_at(path).append({"event": "done"})

    assert verify(path)[0] == 0
    path.write_bytes(path.read_bytes().replace(b'"au\n', b'"xx\n'))
    assert verify(path)[0] == 1


def test_a_line_that_was_written_and_not_remembered_is_no_fault(path, verify) -> None:
    log = log_at(path)
    log.append({"event": "asked"})
    head = path.with_name("audit.log.head")
    before = head.read_bytes()
    log.append({"event": "done"})
    head.write_bytes(before)
    log.append({"event": "asked"})
    head.unlink()
    path.write_bytes(path.read_bytes()[:-1])  # the last end of line
    log.append({"event": "done"})

    assert verify(path)[0] == 0
    assert [line["seq"] for line in lines_of(path)] == [1, 2, 3, 4, 5]


def test_full_files_are_set_aside_in_one_chain_and_the_oldest_may_go(path, verify) -> None:
    log = log_at(path, file_bytes=65536, files=2, fsync="never")
    for number in range(800):
        log.append({"event": "asked", "path": f"/{number}", "principal": "p" * 100})

    files = sorted(path.parent.glob("audit.log*"))
    kept = [each for each in files if re.search(r"\.\d{18}$", each.name)]
    assert len(kept) == 2
    assert all(each.stat().st_size < 2 * 65536 for each in files)
    status, told = verify(*reversed(kept), path)
    assert status == 0, told
    assert "are not in these files" in told
    assert verify(kept[0], path)[0] == 1


@pytest.mark.parametrize("step", ["pwrite", "replace"])
def test_a_full_file_that_was_being_set_aside_when_its_process_ended_is_not_taken_for_lost(
    step: str, path, verify, monkeypatch, caplog
) -> None:
    def ends(*_: object) -> None:
        raise OSError(errno.EIO, "the process ends here")

    log = log_at(path, file_bytes=65536)
    while not path.exists() or path.stat().st_size < 65536:
        log.append({"event": "asked", "path": "p" * 8000})
    with monkeypatch.context() as patched:
        patched.setattr(os, step, ends)
        with pytest.raises(OSError, match="ends here"):
            log.append({"event": "asked"})
    log_at(path, file_bytes=65536).append({"event": "asked"})

    files = [each for each in path.parent.iterdir() if each.suffix != ".head"]
    assert len(files) == 2
    assert not [line for file in files for line in lines_of(file) if "lost" in line or "torn" in line]
    assert "is gone" not in caplog.text
    assert verify(*files)[0] == 0


@pytest.mark.full
def test_several_processes_write_one_chain(path, verify) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "150"], env=os.environ) for name in ("a", "b")
    ]
    with ThreadPoolExecutor(2) as here:
        log = log_at(path, fsync="never", file_bytes=65536)
        list(here.map(lambda number: log.append({"event": "asked", "path": f"/c/{number}"}), range(100)))
    assert [writer.wait(PATIENCE) for writer in writers] == [0, 0]

    files = [each for each in path.parent.glob("audit.log*") if each.suffix != ".head"]
    status, told = verify(*files)
    assert status == 0, told
    paths = [line.get("path") for each in files for line in lines_of(each) if line["event"] == "asked"]
    assert len(paths) == len(set(paths)) == 400


def test_a_line_that_could_not_be_written_leaves_the_file_as_it_was(path, verify, monkeypatch) -> None:
    log = log_at(path)
    log.append({"event": "asked"})
    before, write = path.read_bytes(), os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:-10])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        log.append({"event": "done"})
    monkeypatch.undo()

    assert path.read_bytes() == before
    log.append({"event": "done"})
    assert verify(path)[0] == 0


def test_a_file_that_is_no_audit_log_is_not_appended_to(path) -> None:
    path.write_text("dear diary\n" * 10)

    with pytest.raises(AuditFileBroken, match="does not end as an audit log does"):
        log_at(path).check()


def test_verify_names_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit-log", "verify", str(tmp_path / "none")]) == 2
    assert main(["audit-log", "verify", "--head", "5", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "cannot be read" in told
    assert "is no head" in told


ON_A_FULL_DISK = """
import resource
import sys
from smg_core.observability.settings import AuditConfig
from smg_core.admin.auditing import audit_fault
print("before:", audit_fault(AuditConfig(file=sys.argv[1])))
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
print("after:", audit_fault(AuditConfig(file=sys.argv[1])))
"""


@pytest.mark.full
def test_a_disk_without_room_for_a_line_is_noticed_before_a_gateway_starts(path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()

    assert told[0] == "before: "
    assert "cannot be written: File too large" in told[1]


@pytest.mark.full
def test_verify_knows_an_empty_file_a_file_named_twice_and_a_pipe(path, verify, capsys) -> None:
    empty, pipe = path.with_name("empty"), path.with_name("pipe")
    empty.write_bytes(b"")
    log_at(path).append({"event": "asked"})
    os.mkfifo(pipe)

    assert verify(empty) == (1, f"empty   {empty}: no line was written, or all were taken away\n")
    assert verify(path, path.parent / "." / path.name)[0] == 0
    assert main(["audit-log", "verify", str(pipe)]) == 2
    assert "is no file" in capsys.readouterr().err
