"""The settings of clients' files. Records of settings: `config` gathers them. Below: `settings`."""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["FilesConfig"]


@attrs.frozen
class FilesConfig:
    """Files of clients: where their contents lie, how much of them there may be, and what requests may use of them. How large a
    file is, how many there are and how long they stay are settings of `batches`."""

    folder: str | None = option(
        None,
        "Folder that the contents of files lie in, which all gateways that share a history share too; without it, one beside "
        "the file of the history, or in the user's state folder.",
    )
    tenant_bytes: int = option(
        16 * 1024 * MIB,
        "Bytes that the files and uploads of a tenant may have together; a further upload gets 400.",
        at_least=1024,
        at_most=1 << 50,
    )
    key_bytes: int = bound(
        8 * 1024 * MIB,
        "Bytes that the files and uploads of one key of a tenant may have together; a further upload gets 400.",
        at_least=1024,
        at_most=1 << 50,
    )
    upload_s: float = bound(
        3600.0,
        "Seconds after its beginning in which an upload in parts must be completed.",
        at_least=1,
        at_most=30 * 86400,
    )
    parts: int = bound(1000, "Most parts of one upload.", at_least=1, at_most=100_000)
    part_bytes: int = bound(64 * MIB, "Largest part of an upload, in bytes.", at_least=1024, at_most=1 << 40)
    open: int = bound(
        100, "Uploads in parts of a tenant that may be open; a further one gets 429.", at_least=1, at_most=100_000
    )
    input_bytes: int = bound(
        32 * MIB, "Largest file that a request to a model may use, in bytes.", at_least=1024, at_most=1 << 40
    )
    request_bytes: int = bound(
        64 * MIB,
        "Bytes that the files which one request to a model uses may have together.",
        at_least=1024,
        at_most=1 << 40,
    )
    request_files: int = bound(64, "Files that one request to a model may use.", at_least=1, at_most=100_000)
    memory_bytes: int = bound(
        512 * MIB,
        "Bytes that the files which all requests to models of a process use may take of memory; a further request gets 503.",
        at_least=1024,
        at_most=1 << 50,
    )
    sweep_s: float = bound(
        600.0,
        "Seconds between two sweeps, which delete contents that no file and no upload has any more; 0 sweeps never.",
        at_least=0,
        at_most=30 * 86400,
    )
    grace_s: float = bound(
        3600.0,
        "Seconds that contents may be without a file, since they are written before it; a sweep leaves them alone for as long.",
        at_least=1,
        at_most=30 * 86400,
    )
