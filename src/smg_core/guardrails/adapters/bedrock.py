"""Guardrails of Amazon Bedrock, by its operation ApplyGuardrail (edge).

What it would mask is masked here: it tells what it has found, and its own masked text has no places. Above: `rows`. Below:
`asking`, which signs.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.guardrails.adapters.asking import GuardService
from smg_core.guardrails.records import GuardFault, GuardFindings, GuardQuestion, GuardSpan

__all__ = ["BedrockCheck", "BedrockConfig"]

_INTERVENED = "GUARDRAIL_INTERVENED"


class BedrockConfig(Struct, forbid_unknown_fields=True):
    """`guardrail` is its id or ARN, `version` a number or DRAFT. `url` stands in place of the region's own host."""

    guardrail: str
    version: str = "DRAFT"
    region: str = ""
    url: str = ""
    credential: CredentialSpec = CredentialSpec(kind="aws")
    ca: str = ""


class _Match(Struct):
    action: str = ""
    match: str = ""
    type: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        """What it is called."""
        return self.name or self.type or "WORD"


class _Topics(Struct):
    topics: list[_Match] = []


class _Filters(Struct):
    filters: list[_Match] = []


class _Words(Struct, rename="camel"):
    custom_words: list[_Match] = []
    managed_word_lists: list[_Match] = []


class _Sensitive(Struct, rename="camel"):
    pii_entities: list[_Match] = []
    regexes: list[_Match] = []


class _Assessment(Struct, rename="camel"):
    topic_policy: _Topics | None = None
    content_policy: _Filters | None = None
    word_policy: _Words | None = None
    sensitive_information_policy: _Sensitive | None = None
    contextual_grounding_policy: _Filters | None = None

    def matches(self) -> Iterator[_Match]:
        """All that was found."""
        if self.topic_policy is not None:
            yield from self.topic_policy.topics
        for filters in (self.content_policy, self.contextual_grounding_policy):
            if filters is not None:
                yield from filters.filters
        if self.word_policy is not None:
            yield from (*self.word_policy.custom_words, *self.word_policy.managed_word_lists)
        if self.sensitive_information_policy is not None:
            yield from (*self.sensitive_information_policy.pii_entities, *self.sensitive_information_policy.regexes)


class _Answer(Struct):
    action: str
    assessments: list[_Assessment] = []


class BedrockCheck:
    """Asks one guardrail."""

    def __init__(self, service: GuardService, config: BedrockConfig) -> None:
        self._service = service
        self._path = f"/guardrail/{quote(config.guardrail, safe='')}/version/{quote(config.version, safe='')}/apply"

    async def __call__(self, question: GuardQuestion) -> GuardFindings:
        asked: dict[str, Any] = {
            "source": "INPUT" if question.place == "input" else "OUTPUT",
            "content": [{"text": {"text": question.text}}],
        }
        answer = await self._service.ask(self._path, asked, _Answer)
        if answer.action != _INTERVENED:
            if answer.action != "NONE":
                raise GuardFault("answered with an action that is not known")
            return GuardFindings()
        matches = [each for assessment in answer.assessments for each in assessment.matches()]
        blocked = [each.label for each in matches if each.action == "BLOCKED"]
        masked = [each for each in matches if each.action == "ANONYMIZED"]
        spans = [span for each in masked for span in _places(question.text, each)]
        if not blocked and len({each.match for each in masked}) != len({question.text[s.start : s.end] for s in spans}):
            blocked = ["masked elsewhere"]  # something of it is not found in the text, so it cannot be masked here
        if not blocked and not spans:
            blocked = ["intervened"]
        return GuardFindings(tuple(dict.fromkeys(blocked)), tuple(spans))


def _places(text: str, found: _Match) -> Iterator[GuardSpan]:
    """Where in a text it stands."""
    at = text.find(found.match) if found.match else -1
    while at >= 0:
        yield GuardSpan(at, at + len(found.match), found.label)
        at = text.find(found.match, at + len(found.match))
