"""The table of a gateway's public APIs, built from their rows: permissions, envelopes, names in traces.

Pure. Above: the assembly makes one of the rows (`serving.spec`), handlers and observers read it. Below: the envelopes.
"""

from collections.abc import Mapping

import attrs

from smg_core.http.envelopes import Envelopes

__all__ = ["ApiTable"]


@attrs.frozen
class ApiTable:
    """`permissions`: every permission, and what it permits. `operations`: by the name of a request's API, what the conventions of
    OpenTelemetry for GenAI call it, where that is not "chat"."""

    permissions: Mapping[str, str]
    envelopes: Envelopes
    operations: Mapping[str, str]
