"""Writes the snapshot of public prices, src/smg_core/limits/prices.json, from the package genai-prices (MIT).

python tools/price_snapshot.py YYYY-MM-DD    with that package on the path; the date is the one whose prices are taken

Of providers' own APIs alone, and of prices by token alone. A model with prices in other units, or with prices that depend on the
time of day, is left out: its price is unknown.
"""

import importlib
import json
import sys
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "src" / "smg_core" / "limits" / "prices.json"
PROVIDERS = (
    *("anthropic", "cohere", "deepseek", "google", "minimax", "mistral", "moonshotai", "openai", "voyageai"),
    *("x-ai", "zai"),
)
KINDS = {
    "input_mtok": "input",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "written",
    "output_mtok": "output",
    "input_audio_mtok": "audio",
    "input_image_mtok": "images",
    "input_video_mtok": "video",
}
BESIDE = frozenset(
    {
        *("web_searches_kcount", "storage_searches_kcount", "cache_write_1h_mtok", "cache_audio_read_mtok"),
        *("cache_image_read_mtok",),
    }
)
"""Prices of what is no token of a request here, or of tokens that a usage does not tell apart."""


def rates(price: Any) -> Any:
    """A price: a decimal as text, or the price from each number of prompt tokens on."""
    if hasattr(price, "tiers"):
        tiers = [(0, price.base), *((each.start, each.price) for each in price.tiers)]
        return {str(start): f"{each:f}" for start, each in tiers}
    return f"{price:f}"


def row(model: Any, moment: datetime, context: dict[str, str] | None = None) -> dict[str, Any] | None:
    """The prices of a model; None where they are none by token alone."""
    found = {name: each for name, each in vars(model.get_prices(moment, context)).items() if each is not None}
    if not found.keys() <= KINDS.keys() | BESIDE or "input_mtok" not in found:
        return None
    return {KINDS[name]: rates(each) for name, each in found.items() if name in KINDS}


def names(model: Any) -> list[str]:
    """The names that a model is known by; one that ends with an asterisk is how such names begin."""
    clauses = getattr(model.match, "or_", [model.match])
    exact = [each.equals for each in clauses if hasattr(each, "equals")]
    begins = [f"{each.starts_with}*" for each in clauses if hasattr(each, "starts_with")]
    own = [model.id] if model.is_match(model.id) else []
    return list(dict.fromkeys([*own, *exact, *begins]))


def by_the_clock(model: Any) -> bool:
    """Whether its prices depend on the time of day."""
    conditions = [*(model.prices if isinstance(model.prices, list) else []), *(model.price_variants or [])]
    return any(hasattr(each.constraint, "start_time") for each in conditions)


def snapshot(day: date) -> dict[str, Any]:
    """The file's content."""
    moment = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    models: dict[str, Any] = {}
    pages: dict[str, str] = {}
    for provider in importlib.import_module("genai_prices.data").providers:
        if provider.id not in PROVIDERS:
            continue
        pages[provider.id] = provider.pricing_urls[0]
        for model in provider.models:
            found = None if by_the_clock(model) else row(model, moment)
            if found is None:
                continue
            batch = row(model, moment, {"processing": "batch"})
            if batch is not None and batch != found:
                found["batch"] = batch
            for name in names(model):
                models.setdefault(name.lower(), found)
    source = f"genai-prices {version('genai-prices')} (MIT), from the providers' own pages"
    return {"source": source, "date": day.isoformat(), "currency": "USD", "pages": pages, "models": models}


if __name__ == "__main__":
    content = snapshot(date.fromisoformat(sys.argv[1]))
    head = {name: each for name, each in content.items() if name != "models"}
    lines = [f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in sorted(content["models"].items())]
    FILE.write_text(json.dumps(head)[:-1] + ', "models": {\n' + ",\n".join(lines) + "\n}}\n")
