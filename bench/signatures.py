"""CPU that a request to AWS's Bedrock costs beside one to another provider: its signature, and the frames of its stream.

    python bench/signatures.py                      one signature, by the size of the body; one event of a stream
    python bench/signatures.py --with botocore      AWS's own library beside it

The best of `--rounds` rounds counts, since other processes only add. The goal is 25 us a signature of a small body; a larger one
costs its digest, too.
"""

import argparse
import struct
import time
import timeit
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


def best(call: Callable[[], object], rounds: int) -> float:
    """Microseconds of one call, in the best round."""
    return min(timeit.repeat(call, number=CALLS, repeat=rounds)) / CALLS * 1e6


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
    for size in SIZES:
        body = b"x" * size
        told = f"a signature, body of {size:>7,} bytes: {best(signing(body), asked.rounds):7.1f} us"
        if asked.peer:
            told += f", botocore {best(signing_by_botocore(body), asked.rounds):7.1f} us"
        print(told)
    reader = EventStreamReader()
    event = frame(b'{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefghijklm"}')
    told = f"an event of a stream:                  {best(lambda: reader.feed(event), asked.rounds):7.1f} us"
    if asked.peer:
        from botocore.eventstream import EventStreamBuffer

        buffer = EventStreamBuffer()

        def read() -> None:
            buffer.add_data(event)
            list(buffer)

        told += f", botocore {best(read, asked.rounds):7.1f} us"
    print(told)


if __name__ == "__main__":
    main()
