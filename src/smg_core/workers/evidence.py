"""The known facts of a worker's engine and their sources, in words: for the worker's record.

Pure. Above: models.onboarding, which makes it when a worker joins. Below: engines.base.
"""

from smg_core.engines.base import EngineFacts, ModelInfo

__all__ = ["evidence_of"]


def evidence_of(found: str, info: ModelInfo, facts: EngineFacts) -> tuple[tuple[str, str], ...]:
    """Names and values, in the order in which they are shown. `found` says how the dialect is known; what the engine did not say
    is left out."""
    rows = (
        ("dialect", f"{facts.dialect} ({found})" if found else facts.dialect),
        ("engine's model", info.model),
        ("context length", str(facts.context_length or "")),
        ("vocabulary", str(info.vocab_size or "")),
        ("block size", str(facts.block_size or "")),
        ("data-parallel ranks", str(facts.ranks) if facts.ranks > 1 else ""),
        ("KV role", facts.kv.role),
        ("KV connector", facts.kv.connector),
        ("KV port", str(facts.kv.port or "")),
    )
    return (*((name, value) for name, value in rows if value), *facts.reported)
