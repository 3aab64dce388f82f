"""The settings of vector stores. Records of settings: `config` gathers them. Below: `settings`."""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["VectorStoresConfig"]


@attrs.frozen
class VectorStoresConfig:
    """Vector stores: where their indexes lie, which model makes vectors, and how much of them there may be. They need a history
    in SQLite, in PostgreSQL or in memory. How often waiting files are looked for, and how long a process that died is waited
    for, are `poll_s` and `lease_s` of `batches`."""

    folder: str | None = option(
        None,
        "Folder that the indexes lie in, on a disk of this machine; without it, one beside the file of the history. Beside a "
        "history in PostgreSQL there is none: they are in that.",
    )
    model: str = option(
        "",
        "Model that makes the vectors of texts and of queries, which a worker or a provider serves; without one, vector stores "
        "are searched by words alone, and answers say so. A store keeps the model that it was made with.",
    )
    stores: int = bound(
        1000, "Vector stores that a tenant may have; a further one gets 400.", at_least=1, at_most=1_000_000
    )
    files: int = bound(10_000, "Files that one vector store may have.", at_least=1, at_most=1_000_000)
    chunks: int = bound(
        200_000, "Chunks that one vector store may have; a file with more fails.", at_least=100, at_most=100_000_000
    )
    file_bytes: int = bound(64 * MIB, "Largest file that is indexed, in bytes.", at_least=1024, at_most=1 << 40)
    memory_bytes: int = bound(
        256 * MIB,
        "Bytes of memory that the vectors of all stores that a process searches may take; those used longest ago go first, and "
        "those of a larger store are read from the disk for each search.",
        at_least=0,
        at_most=1 << 50,
    )
    at_once: int = bound(2, "Files that a process indexes at the same time.", at_least=1, at_most=1000)

    def why_not(self, history: str, *, sealed: bool) -> str:
        """The reason why a history at this URL, `sealed` where it has keys, has no vector stores; "" where there can be."""
        if sealed:
            return "vector stores keep words as they are, and history.keys asks for all that is kept to be sealed"
        if not history.startswith(("memory:", "sqlite:", "postgresql:")):
            kind = history.partition(":")[0].partition("+")[0]
            return f"vector stores need a history in SQLite, in PostgreSQL or in memory, and history.url is of {kind}"
        return ""
