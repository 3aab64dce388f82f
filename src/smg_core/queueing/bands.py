"""The bands of requests: which a caller's requests are in, and what a band has of a model's workers.

A band comes from the permissions of the key; a request may lower it by a header, never raise it. Pure. Above: `model_queue`,
`waiting`. Below: grants, errors.
"""

from collections.abc import Mapping

import attrs

from smg_core.errors import InvalidRequest
from smg_core.grants import Grants
from smg_core.settings import ConfigError

__all__ = ["BANDS", "BATCH", "INTERACTIVE", "PRIORITY", "STANDARD", "SYSTEM", "Band", "band_of", "weights_in"]

PRIORITY = "x-smg-priority"
"""The header by which a request says its band."""

MOST_WEIGHT = 1e6
"""The largest weight of a tenant, and one over the smallest."""


@attrs.frozen
class Band:
    """One band. Its requests go to workers while the model is less full than `ceiling`, of 1; while they wait, they get at least
    the share `floor` of what is given out. `quick`: somebody sits before the answer, so a request waits a third as long."""

    name: str
    ceiling: float
    floor: float
    quick: bool = False

    @property
    def permission(self) -> str:
        """The permission that a key needs to be in this band."""
        return f"queue.{self.name}"


BANDS = (
    Band("system", 1.0, 0.1, quick=True),
    Band("interactive", 0.95, 0.1, quick=True),
    Band("standard", 0.90, 0.05),
    Band("batch", 0.60, 0.02),
)
"""The bands, the first first; a band is meant by its place here."""
SYSTEM, INTERACTIVE, STANDARD, BATCH = range(4)

_PLACES: Mapping[str, int] = {band.name: place for place, band in enumerate(BANDS)}


def band_of(grants: Grants, asked: str | None) -> int:
    """The band of a request whose caller has these grants and whose header says `asked` (None: it has none). Raises
    InvalidRequest for a band that does not exist."""
    permitted = next((place for place in (SYSTEM, INTERACTIVE) if grants.may(BANDS[place].permission)), STANDARD)
    if asked is None:
        return STANDARD if grants.permissions is None else permitted
    place = _PLACES.get(asked.strip().lower())
    if place is None:
        raise InvalidRequest(f"The header {PRIORITY} takes {', '.join(_PLACES)}.", param=PRIORITY)
    return max(place, permitted)


def weights_in(lines: tuple[str, ...]) -> dict[str, float]:
    """The weights of tenants in `queue.weights`. Raises ConfigError for a line that is none."""
    found: dict[str, float] = {}
    for line in lines:
        tenant, equals, text = line.rpartition("=")
        try:
            weight = float(text)
        except ValueError:
            weight = 0.0
        if not equals or not tenant.strip() or not 1 / MOST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ConfigError(f"queue.weights: {line}: expected TENANT=WEIGHT, the weight above 0, such as acme=2")
        if tenant.strip() in found:
            raise ConfigError(f"queue.weights: {tenant.strip()} is given twice")
        found[tenant.strip()] = weight
    return found
