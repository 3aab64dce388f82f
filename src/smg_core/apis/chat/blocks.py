"""Parts of both wires of Chat Completions: opaque blocks and logprobs.

Pure. Above: the encoders. Below: events.
"""

import base64
from collections.abc import Sequence

from smg_core.events import OpaqueBlock, TokenLogprob
from smg_core.wire.json_text import encode_object
from smg_core.wire.logprobs import logprob_object

__all__ = ["logprobs_json", "logprobs_list", "logprobs_of", "opaque_object"]


def opaque_object(block: OpaqueBlock) -> dict[str, str]:
    """The block with its bytes as text; bytes that are not UTF-8 are base64 and say so."""
    try:
        return {"type": block.kind, "data": block.payload.decode()}
    except UnicodeDecodeError:
        return {"type": block.kind, "data": base64.b64encode(block.payload).decode(), "encoding": "base64"}


def logprobs_json(logprobs: Sequence[TokenLogprob]) -> bytes:
    return logprobs_of([logprobs_list(logprobs)])


def logprobs_of(lists: Sequence[bytes]) -> bytes:
    """The `logprobs` object of a text from the results of `logprobs_list` for its parts."""
    return b'{"content":[%b],"refusal":null}' % b",".join(lists)


def logprobs_list(logprobs: Sequence[TokenLogprob]) -> bytes:
    """Tokens and their alternatives, separated by commas."""
    return encode_object([logprob_object(one) for one in logprobs])[1:-1]
