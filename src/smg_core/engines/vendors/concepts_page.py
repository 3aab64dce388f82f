"""The table of docs/providers.md: what becomes of each concept before each provider. Pure. Above: tools/providers_page.py."""

from collections.abc import Mapping

from smg_core.engines.vendors.concepts import CONCEPTS, ConceptCell

__all__ = ["concepts_table"]


def concepts_table(columns: Mapping[str, tuple[str, Mapping[str, ConceptCell]]]) -> str:
    """The table as Markdown: a row for each concept, a column for each kind with the model that its cells are of."""
    head = ["", *(f"`{kind}` ({model})" for kind, (model, _) in columns.items())]
    lines = [_row(head), _row(["---"] * len(head))]
    for concept, title in CONCEPTS.items():
        lines.append(_row([title, *(_cell_text(cells[concept]) for _, cells in columns.values())]))
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell_text(cell: ConceptCell) -> str:
    if cell.how == "lossy":
        return f"`{cell.name}`: {cell.what}"
    return "yes" if cell.how == "exact" else "refused"
