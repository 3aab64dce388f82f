"""What processes tell each other of a worker is read as it was written."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.workers.roster_entry import RosterEntry, read_entry, written_entry
from smg_core.workers.worker import WorkerSpec

WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
PAIRS = st.lists(st.tuples(WORDS, WORDS), max_size=3).map(tuple)
MATERIAL = st.sampled_from((None, Path("/etc/a.pem"), b"-----BEGIN CERTIFICATE-----"))
SPECS = st.builds(
    WorkerSpec,
    url=WORDS,
    name=WORDS,
    model=st.none() | WORDS,
    weight=st.floats(0.001, 1e6),
    role=st.sampled_from((None, "regular", "prefill", "decode", "encode")),
    headers=PAIRS,
    tls=st.none() | st.builds(Tls, ca=MATERIAL, server_name=st.none() | WORDS),
    bootstrap_port=st.integers(0, 65535),
    rank=st.none() | st.integers(0, 9),
    adapters=PAIRS,
    labels=PAIRS,
    kv_events=WORDS,
    kv_events_replay=WORDS,
    kv_events_topic=WORDS,
    credential=st.none()
    | st.builds(
        CredentialSpec,
        key=WORDS,
        command=st.lists(WORDS).map(tuple),
        every_s=st.none() | st.floats(1, 9),
        managed=st.booleans(),
    ),
    region=WORDS,
    vendor_model=WORDS,
    api_version=WORDS,
)
ENTRIES = st.builds(
    RosterEntry,
    name=WORDS,
    spec=st.none() | SPECS,
    source=WORDS,
    draining=st.booleans(),
    move=st.booleans(),
    retire_s=st.none() | st.floats(0, 1e6),
)


@given(ENTRIES)
def test_an_entry_is_read_as_it_was_written(entry: RosterEntry) -> None:
    assert read_entry(written_entry(entry)) == entry
