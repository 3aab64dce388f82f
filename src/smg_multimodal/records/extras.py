"""The line that installs what reads a kind of file, where it is missing."""

from functools import cache

__all__ = ["line_to_install"]


@cache
def line_to_install(extra: str) -> str:
    """What to type for an extra: of the SDK where it is installed, and else of this distribution."""
    from importlib.metadata import distributions  # loads much, and most programs miss nothing

    return (
        f"pip install '{'smg-sdk' if any(True for _ in distributions(name='smg-sdk')) else 'smg-multimodal'}[{extra}]'"
    )
