"""`ProviderJson`: a JSON object that is being written for a provider, whose shape is the provider's. Pure."""

from typing import Any

__all__ = ["ProviderJson"]

ProviderJson = dict[str, Any]
"""An object of a body: its values are JSON, or msgspec.Raw that is put in as it is."""
