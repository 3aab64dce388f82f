"""Keys of AWS as JSON documents, which programs, containers and instances give.

Decides what such a document says and when its keys end. Pure. Above: chain. Below: granted.
"""

import msgspec

from smg_core.credentials.aws.sigv4 import AwsKeys
from smg_core.credentials.renewal.granted import Granted, ending_of, granted_until

__all__ = ["granted_keys", "keys_of_document"]


class _Document(msgspec.Struct):
    AccessKeyId: str = ""
    SecretAccessKey: str = ""
    Token: str = ""
    SessionToken: str = ""
    Expiration: str | None = None
    Version: int = 1
    Code: str = "Success"


def keys_of_document(body: bytes, now: float) -> Granted[AwsKeys]:
    """The keys of a document. Raises ValueError, which names no value of it but the code of a failure."""
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("the document with the keys cannot be read") from None
    if document.Code != "Success":
        raise ValueError(f"the keys are not given: {document.Code[:64]!r}")
    if document.Version != 1:
        raise ValueError(f"the document with the keys is of version {document.Version}, and 1 is known")
    if not document.AccessKeyId or not document.SecretAccessKey:
        raise ValueError("the document has no AccessKeyId or no SecretAccessKey")
    keys = AwsKeys(document.AccessKeyId, document.SecretAccessKey, document.Token or document.SessionToken)
    return granted_keys(keys, now, None if document.Expiration is None else ending_of(document.Expiration))


def granted_keys(keys: AwsKeys, now: float, ends_at: float | None) -> Granted[AwsKeys]:
    """Keys that end at `ends_at`, or never. Raises ValueError for keys that have ended."""
    if ends_at is None:
        return Granted(keys)
    if ends_at <= now:
        raise ValueError("the keys that were given have ended already")
    return granted_until(keys, now, ends_at)
