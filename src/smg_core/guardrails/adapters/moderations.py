"""A service with OpenAI's route of moderations, which judges texts and pictures (edge).

Above: `rows`. Below: `asking`.
"""

from collections.abc import Mapping

from msgspec import Struct

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.guardrails.adapters.asking import GuardService
from smg_core.guardrails.records import GuardFault, GuardFindings, GuardQuestion

__all__ = ["ModerationsCheck", "ModerationsConfig"]


class ModerationsConfig(Struct, forbid_unknown_fields=True):
    """`url` is that of the API, with its `/v1`. Where `categories` names some, each with the score from which it counts, only
    these do; otherwise the service's own judgement does. `pictures` False: the model takes texts alone."""

    url: str = "https://api.openai.com/v1"
    model: str = "omni-moderation-latest"
    categories: Mapping[str, float] = {}
    pictures: bool = True
    credential: CredentialSpec | None = None
    ca: str = ""


class _Result(Struct):
    flagged: bool
    categories: dict[str, bool | None] = {}
    category_scores: dict[str, float | None] = {}


class _Answer(Struct):
    results: list[_Result]


class ModerationsCheck:
    """Asks one service."""

    def __init__(self, service: GuardService, config: ModerationsConfig) -> None:
        self._service, self._config = service, config

    async def __call__(self, question: GuardQuestion) -> GuardFindings:
        asked: object = question.text
        if question.pictures:
            texts: list[object] = [{"type": "text", "text": question.text}] if question.text else []
            asked = [*texts, *({"type": "image_url", "image_url": {"url": each}} for each in question.pictures)]
        answer = await self._service.ask("/moderations", {"model": self._config.model, "input": asked}, _Answer)
        if not answer.results:
            raise GuardFault("answered without a result")
        blocked = [name for result in answer.results for name in self._blocked(result)]
        return GuardFindings(tuple(dict.fromkeys(blocked)))

    def _blocked(self, result: _Result) -> list[str]:
        wanted = self._config.categories
        if wanted:
            scores = result.category_scores
            return [name for name, least in wanted.items() if (scores.get(name) or 0.0) >= least]
        named = [name for name, flagged in result.categories.items() if flagged]
        return (named or ["flagged"]) if result.flagged else []
