"""Presidio's analyzer, a service that finds personal data in texts (edge).

Above: `rows`. Below: `asking`.
"""

from msgspec import Struct

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.guardrails.adapters.asking import GuardService
from smg_core.guardrails.records import GuardFindings, GuardQuestion, GuardSpan

__all__ = ["PresidioCheck", "PresidioConfig"]


class PresidioConfig(Struct, forbid_unknown_fields=True):
    """`url` is that of the service, without `/analyze`; `entities` are those that are looked for, all that it knows where there
    is none; what it finds with less than `score` does not count."""

    url: str
    language: str = "en"
    entities: tuple[str, ...] = ()
    score: float = 0.5
    credential: CredentialSpec | None = None
    ca: str = ""


class _Found(Struct):
    entity_type: str
    start: int
    end: int
    score: float = 1.0


class PresidioCheck:
    """Asks one analyzer."""

    def __init__(self, service: GuardService, config: PresidioConfig) -> None:
        self._service, self._config = service, config

    async def __call__(self, question: GuardQuestion) -> GuardFindings:
        config = self._config
        asked: dict[str, object] = {"text": question.text, "language": config.language}
        if config.entities:
            asked["entities"] = config.entities
        if config.score:
            asked["score_threshold"] = config.score
        found = await self._service.ask("/analyze", asked, list[_Found])
        spans = [GuardSpan(each.start, each.end, each.entity_type) for each in found if each.score >= config.score]
        return GuardFindings(spans=tuple(spans))
