"""A rule of placement: what it asks of the labels of workers, and for whose requests.

Pure. A rule is one line: a verb, labels, and behind "for" whom it is for.

    require zone=eu for tenant=acme
    prefer zone=eu-1 spill=8
    weigh tier=fast by=3 for model=llama-* api=chat,responses
    isolate tenant={tenant} for tenant=acme,globex
    require zone={header.x-zone}

What stands for itself in a value is written as in a URL: %20 a space, %2C a comma, %2A an asterisk, %7B a brace. Above: placing,
the settings. Below: nothing.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, cast, get_args
from urllib.parse import unquote

import attrs
from msgspec import Struct

__all__ = ["LabelTerm", "Pattern", "PlacedRequest", "PlacementRefused", "PlacementRule", "Verb", "read_placement"]

Verb = Literal["require", "prefer", "weigh", "isolate"]
"""What a rule does with the workers that have its labels: no others are taken; no others while they have room; their weight
counts more; no others, and nobody else's requests go there."""

SPILL = 8.0
MOST_SPILL, LEAST_BY, MOST_BY = 1e6, 1e-3, 1e3
APIS = frozenset(
    (
        *(
            "chat",
            "completions",
            "generate",
            "generate_content",
            "image_edits",
            "images",
            "interactions",
            "mcp",
            "messages",
        ),
        *("realtime", "responses", "speech", "transcriptions"),
        *("classify", "embed", "embed_content", "embeddings", "moderations", "rerank", "score", "vector_stores"),
    )
)
"""What the APIs are called that ask engines, those of text first."""
_WHO = ("tenant", "key", "model", "api", "header")
_HELD = re.compile(r"\{(tenant|key|model|api|header\.[!#$%&'*+.^_`|~0-9A-Za-z-]+)\}")
_NUMBERS: Mapping[str, tuple[Verb, float, float]] = {
    "spill": ("prefer", 0.0, MOST_SPILL),
    "by": ("weigh", LEAST_BY, MOST_BY),
}


class PlacementRefused(ValueError):
    """A line that is no rule of placement; the text says why."""


class PlacedRequest(Struct, frozen=True):
    """What of a request rules look at: its tenant, its key (the principal of the tenant), the names of its model, the API that it
    came through, and its headers, with names in lower case."""

    tenant: str = ""
    key: str = ""
    models: tuple[str, ...] = ()
    api: str = ""
    headers: Mapping[str, str] = {}


class Pattern(Struct, frozen=True):
    """A value to compare with: `text` itself, or with `begins` every value that begins with it. `holder` names what of the
    request the value is taken from, "" where it stands in the rule."""

    text: str = ""
    begins: bool = False
    holder: str = ""

    def fits(self, value: str) -> bool:
        return value.startswith(self.text) if self.begins else value == self.text


class LabelTerm(Struct, frozen=True):
    """What is asked of one label: that it is there with one of `values`, or with `unlike` that it has none of them."""

    name: str
    values: tuple[Pattern, ...]
    unlike: bool = False

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether a worker with these labels is what is asked for."""
        value = labels.get(self.name)
        return (value is not None and any(each.fits(value) for each in self.values)) is not self.unlike

    @property
    def text(self) -> str:
        values = ",".join(f"{each.text}{'*' * each.begins}" for each in self.values)
        return f"{self.name}{'!' * self.unlike}={values}"


@attrs.frozen
class PlacementRule:
    """A rule. `terms` hold all; the fields from `tenants` on say whom it is for, empty for everybody, and all of them must fit.
    `spill`: how many more requests than the least loaded other worker the preferred ones may have; `by`: what weights are
    multiplied with. `line` is as the operator wrote it."""

    verb: Verb
    terms: tuple[LabelTerm, ...]
    tenants: tuple[Pattern, ...] = ()
    keys: tuple[Pattern, ...] = ()
    models: tuple[Pattern, ...] = ()
    apis: tuple[Pattern, ...] = ()
    headers: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    spill: float = SPILL
    by: float = 1.0
    line: str = ""

    def terms_for(self, asked: PlacedRequest) -> tuple[LabelTerm, ...] | None:
        """What the rule asks for this request, None where it is not for it: also where a value is taken from what the request
        does not have."""
        if not self._is_for(asked):
            return None
        found = []
        for term in self.terms:
            values = tuple([Pattern(_value(each.holder, asked)) if each.holder else each for each in term.values])
            if any(each.holder and not value.text for each, value in zip(term.values, values, strict=True)):
                return None
            found.append(LabelTerm(term.name, values, term.unlike))
        return tuple(found)

    def _is_for(self, asked: PlacedRequest) -> bool:
        return (
            _any_fits(self.tenants, (asked.tenant,))
            and _any_fits(self.keys, (asked.key,))
            and _any_fits(self.models, asked.models)
            and _any_fits(self.apis, (asked.api,))
            and all(
                name in asked.headers and _any_fits(values, (asked.headers[name],)) for name, values in self.headers
            )
        )

    @property
    def takes_header(self) -> bool:
        """Whether a value comes from a header of the client."""
        return any(each.holder.startswith("header.") for term in self.terms for each in term.values)

    @property
    def reserved(self) -> tuple[LabelTerm, ...]:
        """What the workers of an `isolate` have, whoever of those it is for asks."""
        owners = {"tenant": self.tenants, "key": self.keys}
        anyone = (Pattern(begins=True),)
        return tuple(
            LabelTerm(
                term.name,
                tuple(
                    found
                    for each in term.values
                    for found in ((owners.get(each.holder) or anyone) if each.holder else (each,))
                ),
            )
            for term in self.terms
        )


def read_placement(lines: Iterable[str]) -> tuple[PlacementRule, ...]:
    """The rules of these lines, in their order. Raises PlacementRefused, which names the line."""
    return tuple([_rule(line) for line in lines])


def _rule(line: str) -> PlacementRule:
    words = line.split()
    verb, rest = words[0] if words else "", words[1:]
    if verb not in get_args(Verb):
        raise PlacementRefused(f"{line}: a rule begins with require, prefer, weigh or isolate")
    at = rest.index("for") if "for" in rest else len(rest)
    labels, whom = rest[:at], rest[at + 1 :]
    if at < len(rest) and not whom:
        raise PlacementRefused(f"{line}: nobody is named behind for")
    numbers = [word for word in labels if word.partition("=")[0] in _NUMBERS]
    terms = tuple([_term(line, word) for word in labels if word not in numbers])
    if not terms:
        raise PlacementRefused(f"{line}: it names no label")
    given = _numbers(line, cast("Verb", verb), numbers)
    rule = _whom(
        line,
        PlacementRule(cast("Verb", verb), terms, spill=given.get("spill", SPILL), by=given.get("by", 1.0), line=line),
        whom,
    )
    if verb == "isolate":
        _check_isolate(rule)
    return rule


def _term(line: str, word: str) -> LabelTerm:
    name, sign, values = word.partition("=")
    unlike = name.endswith("!")
    name = unquote(name.removesuffix("!"))
    if not sign or not name or not values or values.startswith("="):
        raise PlacementRefused(f"{line}: {word}: expected LABEL=VALUE or LABEL!=VALUE")
    return LabelTerm(name, _patterns(line, values, holders=True), unlike)


def _patterns(line: str, text: str, *, holders: bool = False) -> tuple[Pattern, ...]:
    found = []
    for each in text.split(","):
        held = _HELD.fullmatch(each)
        if not each or (held is None and ("{" in each or "}" in each)) or (held is not None and not holders):
            known = "{tenant}, {key}, {model}, {api} or {header.NAME}" if holders else "a value or a beginning with *"
            raise PlacementRefused(f"{line}: {each or text}: expected {known}")
        if "*" in each[:-1] and held is None:
            raise PlacementRefused(f"{line}: {each}: * stands at the end of a value; one that is meant is written %2A")
        if held is not None:
            found.append(Pattern(holder=held[1].lower() if held[1].startswith("header.") else held[1]))
        else:
            found.append(Pattern(unquote(each.removesuffix("*")), each.endswith("*")))
    return tuple(found)


def _numbers(line: str, verb: Verb, words: Iterable[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        of, least, most = _NUMBERS[name]
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if of != verb or name in found or not least <= value <= most:
            raise PlacementRefused(
                f"{line}: {word}: {name} is a number from {least:g} to {most:g}, once, of {of} alone"
            )
        found[name] = value
    if verb == "weigh" and "by" not in found:
        raise PlacementRefused(f"{line}: by= says what the weight is multiplied with")
    return found


def _whom(line: str, rule: PlacementRule, words: Iterable[str]) -> PlacementRule:
    """`rule` for those whom these words name."""
    found: dict[str, tuple[Pattern, ...]] = {}
    headers: list[tuple[str, tuple[Pattern, ...]]] = []
    for word in words:
        name, _, values = word.partition("=")
        if name not in _WHO or not values or name in found:
            raise PlacementRefused(f"{line}: {word}: expected one each of {', '.join(f'{each}=' for each in _WHO)}")
        if name != "header":
            found[name] = _patterns(line, values)
            if name == "api":
                _check_apis(line, found[name])
            continue
        header, sign, values = values.partition(":")
        if not header or not sign:
            raise PlacementRefused(f"{line}: {word}: expected header=NAME:VALUE")
        headers.append((header.lower(), _patterns(line, values)))
    return attrs.evolve(
        rule,
        tenants=found.get("tenant", ()),
        keys=found.get("key", ()),
        models=found.get("model", ()),
        apis=found.get("api", ()),
        headers=tuple(headers),
    )


def _check_apis(line: str, patterns: Iterable[Pattern]) -> None:
    """Raise PlacementRefused for an API that does not exist: such a rule would never be for anybody."""
    for each in patterns:
        if not any(map(each.fits, APIS)):
            raise PlacementRefused(f"{line}: {each.text}: there is no such API; there are {', '.join(sorted(APIS))}")


def _check_isolate(rule: PlacementRule) -> None:
    """Raise PlacementRefused where others could come to the workers, or where it is not clear whose they are."""
    if any(term.unlike for term in rule.terms):
        raise PlacementRefused(f"{rule.line}: isolate names the labels that its workers have")
    if rule.models or rule.apis or rule.headers:
        raise PlacementRefused(f"{rule.line}: isolate is for tenants or keys, which a client cannot choose")
    holders = {each.holder for term in rule.terms for each in term.values if each.holder}
    if holders - {"tenant", "key"}:
        raise PlacementRefused(f"{rule.line}: isolate takes {{tenant}} and {{key}} alone from a request")
    if "tenant" not in holders and not rule.tenants:
        raise PlacementRefused(
            f"{rule.line}: it does not say whose its workers are (tenant=, or a label of {{tenant}})"
        )


def _any_fits(patterns: tuple[Pattern, ...], values: tuple[str, ...]) -> bool:
    return not patterns or any(each.fits(value) for each in patterns for value in values)


def _value(holder: str, asked: PlacedRequest) -> str:
    """What a request has in the place of `{holder}`, "" for nothing."""
    if holder.startswith("header."):
        return asked.headers.get(holder.removeprefix("header."), "")
    if holder == "model":
        return asked.models[0] if asked.models else ""
    return str(getattr(asked, holder))
