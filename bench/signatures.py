"""CPU that a request to AWS's Bedrock costs beside one to another provider: its signature, and the frames of its stream.

    python bench/signatures.py                      one signature, by the size of the body; one event of a stream
    python bench/signatures.py --with botocore      AWS's own library beside it

The figures are CPU time of this process. All are taken in turn, round by round, and the best of `--rounds` rounds counts, since
other processes only add. The goal is 25 us a signature of a small body; a larger one costs its digest, too.
"""

import argparse
import struct
import time
import zlib
from collections.abc import Callable

from smg_core.credentials.aws.sigv4 import AwsKeys, AwsScope, amz_date, sign
from smg_core.engines.vendors.bedrock.event_stream import EventStreamReader

URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream"
KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "SESSION" * 100)
SCOPE = AwsScope("us-east-1", "bedrock")
HEADERS = (("content-type", "application/json"), ("accept", "application/vnd.amazon.eventstream"))
SIZES = (100, 4_000, 100_000)
CALLS = 2_000


def measured(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Microseconds of CPU of one call of each, in its best round. All have their turn in every round."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.process_time()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.process_time() - begun) / CALLS * 1e6)
    return best


def signing(body: bytes) -> Callable[[], object]:
    """One signature of a body, with the date that the clock gives."""
    return lambda: sign(KEYS, SCOPE, amz_date(time.time()), "POST", URL, HEADERS, body)


def signing_by_botocore(body: bytes) -> Callable[[], object]:
    """The same, by AWS's own library."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    auth = SigV4Auth(Credentials(KEYS.key_id, KEYS.secret, KEYS.session), SCOPE.service, SCOPE.region)
    return lambda: auth.add_auth(AWSRequest("POST", URL, dict(HEADERS), body))


def frame(payload: bytes) -> bytes:
    """One event, as Bedrock writes it."""
    named = {":event-type": "contentBlockDelta", ":content-type": "application/json", ":message-type": "event"}
    block = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in named.items()
    )
    prelude = struct.pack(">II", 16 + len(block) + len(payload), len(block))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + block + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--with", dest="peer", choices=["botocore"])
    asked = parser.parse_args()
    reader, event = EventStreamReader(), frame(b'{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefghijklm"}')
    calls: dict[str, Callable[[], object]] = {
        f"a signature, body of {size:,} bytes": signing(b"x" * size) for size in SIZES
    }
    calls["an event of a stream"] = lambda: reader.feed(event)
    if asked.peer:
        calls |= {f"botocore: {name}": call for name, call in by_botocore(event).items()}
    for name, found in measured(calls, asked.rounds).items():
        print(f"{name:>50}: {found:7.1f} us")


def by_botocore(event: bytes) -> dict[str, Callable[[], object]]:
    """The same work by AWS's own library."""
    from botocore.eventstream import EventStreamBuffer

    buffer = EventStreamBuffer()

    def read() -> None:
        buffer.add_data(event)
        list(buffer)

    signed = {f"a signature, body of {size:,} bytes": signing_by_botocore(b"x" * size) for size in SIZES}
    return {**signed, "an event of a stream": read}


if __name__ == "__main__":
    main()
