"""Says what is wrong with the rules of placement in a configuration; loads what reads them only where there are any."""

from collections.abc import Iterator

__all__ = ["placement_problems"]


def placement_problems(lines: tuple[str, ...]) -> Iterator[str]:
    """Every problem, each beginning with its setting's path."""
    if not lines:
        return
    from smg_core.placement.rules import PlacementRefused, read_placement

    for line in lines:
        try:
            read_placement((line,))
        except PlacementRefused as error:
            yield f"routing.placement: {error}"
