"""Keys from the environment, files and commands: replaced while they are used, renewed by one at a time, and never shown."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import attrs
import pytest
from tests.gateway.conftest import eventually

from smg_core.credentials.renewal.fields import KeySigner
from smg_core.credentials.renewal.granted import Granted, granted_until
from smg_core.credentials.renewal.keys import key_source
from smg_core.credentials.renewal.programs import output_of
from smg_core.credentials.renewal.renewed import PAUSE_S, Renewed
from smg_core.engines.connections.credential import CredentialSpec
from smg_core.errors import CredentialFailed

pytestmark = pytest.mark.anyio


@attrs.define
class Hand:
    """A clock that goes when it is told to."""

    now: float = 1_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


async def sent(signer: KeySigner) -> str:
    """The key that the next request is sent with."""
    given = signer.authorise("POST", "https://vendor.example/v1", (), b"")
    fields = given if not hasattr(given, "__await__") else await given
    return dict(fields)["authorization"]  # type: ignore[arg-type]


def held(signer: KeySigner) -> str:
    """The key that a request is sent with which does not wait."""
    given = signer.authorise("POST", "https://vendor.example/v1", (), b"")
    assert not hasattr(given, "__await__")
    return dict(given)["authorization"]  # type: ignore[arg-type]


def signer_of(spec: CredentialSpec, clock: Hand) -> KeySigner:
    spec.check()
    return KeySigner(key_source(spec, clock=clock), "authorization", "Bearer")


async def test_a_key_of_the_environment_is_sent_and_looked_up_again_when_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VENDOR_KEY", " first\n")
    signer = signer_of(CredentialSpec(env="VENDOR_KEY"), Hand())
    assert await sent(signer) == "Bearer first"
    monkeypatch.setenv("VENDOR_KEY", "second")
    assert await sent(signer) == "Bearer first"
    assert signer.refused((("authorization", "Bearer first"),), 401, {}, b"")
    assert await sent(signer) == "Bearer second"


async def test_a_file_that_changes_gives_the_next_key_without_a_request_that_waits(tmp_path: Path) -> None:
    clock, file = Hand(), tmp_path / "key"
    file.write_text("first\n")
    signer = signer_of(CredentialSpec(file=str(file), every_s=30), clock)
    assert await sent(signer) == "Bearer first"
    file.write_text("second\n")
    assert await sent(signer) == "Bearer first"
    clock.now += 31
    assert await sent(signer) == "Bearer first"  # and the file is being looked at
    await eventually(lambda: held(signer) == "Bearer second")


async def test_a_file_that_is_gone_leaves_the_key_that_was_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, file = Hand(), tmp_path / "key"
    file.write_text("first")
    signer = signer_of(CredentialSpec(file=str(file)), clock)
    assert await sent(signer) == "Bearer first"
    file.unlink()
    clock.now += 60
    with caplog.at_level(logging.WARNING):
        assert await sent(signer) == "Bearer first"
        await eventually(lambda: bool(caplog.records))
    assert await sent(signer) == "Bearer first"
    assert "first" not in caplog.text


async def test_a_command_is_asked_again_by_its_age(tmp_path: Path) -> None:
    clock, file = Hand(), tmp_path / "counted"
    script = (
        f"import pathlib; p = pathlib.Path({str(file)!r}); p.open('a').write('x'); print('key-%d' % len(p.read_text()))"
    )
    signer = signer_of(CredentialSpec(command=(sys.executable, "-c", script), every_s=60, timeout_s=60), clock)
    assert await sent(signer) == "Bearer key-1"
    assert await sent(signer) == "Bearer key-1"
    clock.now += 61
    await eventually(lambda: held(signer) == "Bearer key-2")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import sys; print('s3cret'); sys.exit(3)", "ended with status 3"),
        ("print('s3cret' * 20000)", "wrote more than 65536 bytes"),
        ("pass", "it is empty"),
        ("print('s3cret\\nand more')", "characters that no header can carry"),
        ("import sys; sys.stderr.write('s3cret'); sys.exit(1)", "ended with status 1"),
    ],
)
async def test_a_command_that_gives_no_key_is_named_and_its_words_are_not(script: str, why: str) -> None:
    signer = signer_of(CredentialSpec(command=(sys.executable, "-c", script), timeout_s=60), Hand())
    with pytest.raises(CredentialFailed) as caught:
        await sent(signer)
    assert why in (caught.value.detail or "")
    assert "s3cret" not in caught.value.whole


@pytest.mark.full
async def test_a_command_that_is_late_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "child"
    script = (
        "import pathlib, subprocess, sys, time;"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        f"pathlib.Path({str(file)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    with pytest.raises(ValueError, match="took more than 2 s"):
        await output_of((sys.executable, "-c", script), 2.0)
    child = int(file.read_text())

    def gone() -> bool:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"

    await eventually(gone)


async def test_requests_at_once_ask_the_source_once() -> None:
    asked = 0

    async def fetch() -> Granted[str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return Granted("token")

    source = Renewed("counted", fetch, clock=Hand())
    assert await asyncio.gather(*(source.current() for _ in range(20))) == ["token"] * 20
    assert asked == 1


async def test_a_token_is_renewed_behind_the_requests_and_awaited_near_its_end() -> None:
    clock, given = Hand(), 0

    async def fetch() -> Granted[str]:
        nonlocal given
        given += 1
        return granted_until(f"token-{given}", clock.time(), clock.time() + 3600)

    source = Renewed("hourly", fetch, clock=clock)
    assert await source.current() == "token-1"
    clock.now += 2600
    assert source.held() == "token-1"
    clock.now += 150  # less than 15 minutes are left
    assert source.held() == "token-1"
    await eventually(lambda: source.held() == "token-2")
    clock.now += 3100  # less than 10 are
    assert source.held() is None
    assert await source.current() == "token-3"


async def test_a_source_that_fails_leaves_the_old_token_while_it_is_valid_and_is_not_asked_by_each_request() -> None:
    clock, asked = Hand(), 0

    async def fetch() -> Granted[str]:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise OSError("no route")
        return granted_until("token", clock.time(), clock.time() + 3600)

    source = Renewed("failing", fetch, clock=clock)
    assert await source.current() == "token"
    clock.now += 3100
    for _ in range(5):
        assert await source.current() == "token"
    assert asked == 2
    clock.now += 600
    for _ in range(5):
        with pytest.raises(CredentialFailed, match="no credential") as caught:
            await source.current()
        assert "no route" in (caught.value.detail or "")
    assert asked == 3
    clock.now += PAUSE_S
    with pytest.raises(CredentialFailed):
        await source.current()
    assert asked == 4


async def test_a_key_that_is_refused_twice_is_not_asked_for_without_end() -> None:
    async def fetch() -> Granted[str]:
        return Granted("revoked")

    signer = KeySigner(Renewed("revoked", fetch, clock=Hand()), "x-api-key")
    fields = await signer.authorise("POST", "https://vendor.example", (), b"")  # type: ignore[misc]
    assert signer.refused(fields, 401, {}, b"")
    again = await signer.authorise("POST", "https://vendor.example", (), b"")  # type: ignore[misc]
    assert not signer.refused(again, 401, {}, b"")
    assert not signer.refused(again, 500, {}, b"")


async def test_a_cancelled_request_leaves_the_question_to_those_that_wait() -> None:
    release = asyncio.Event()

    async def fetch() -> Granted[str]:
        await release.wait()
        return Granted("token")

    source = Renewed("slow", fetch, clock=Hand())
    first, second = asyncio.ensure_future(source.current()), asyncio.ensure_future(source.current())
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert await second == "token"
    await source.close()


async def test_those_who_wait_for_a_source_that_is_closed_are_told_and_not_cancelled() -> None:
    async def fetch() -> Granted[str]:
        await asyncio.Event().wait()
        return Granted("never")

    source = Renewed("closed", fetch, clock=Hand())
    waiting = asyncio.ensure_future(source.current())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await source.close()
    with pytest.raises(CredentialFailed):
        await waiting
    with pytest.raises(CredentialFailed):
        await source.current()


@pytest.mark.parametrize("field", ["key", "command"])
def test_no_way_to_print_a_credential_shows_it(field: str) -> None:
    spec = CredentialSpec(key="s3cret") if field == "key" else CredentialSpec(command=("vault", "--token=s3cret"))
    for text in (repr(spec), str(spec), f"{spec}", f"{spec!r}", repr([spec]), repr(spec.__rich_repr__())):
        assert "s3cret" not in text
    assert "s3cret" not in repr(Granted("s3cret"))
    assert "s3cret" not in repr(KeySigner(key_source(spec), "x-api-key"))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (CredentialSpec(), "needs one of"),
        (CredentialSpec(env="A", file="b"), "env and file"),
        (CredentialSpec(key="s3cret", command=("a",)), "key and command"),
        (CredentialSpec(env="A", profile="p"), "has no profile"),
        (CredentialSpec(kind="aws", tenant="t"), "has no tenant"),
        (CredentialSpec(kind="entra", env="A"), "has a tenant"),
        (CredentialSpec(kind="entra", managed=True, env="A"), "has no secret"),
        (CredentialSpec(env="A", every_s=0.5), "every_s"),
        (CredentialSpec(env="A", timeout_s=1000), "timeout_s"),
    ],
)
def test_a_credential_that_makes_no_sense_is_told_by_its_fields(spec: CredentialSpec, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        spec.check()
    assert "s3cret" not in str(caught.value)


def test_a_command_runs_with_the_environment_of_the_process_and_what_is_added() -> None:
    script = "import os; print(os.environ['ADDED'], bool(os.environ.get('PATH')))"
    written = asyncio.run(output_of((sys.executable, "-c", script), 60, environment={"ADDED": "here"}))
    assert written.decode().split() == ["here", str(bool(os.environ.get("PATH")))]
