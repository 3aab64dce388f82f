"""The result of a look at a server, as text for people and as JSON for machines. Pure."""

from collections.abc import Sequence

import attrs
import msgspec

__all__ = ["ConformReport", "Finding"]


@attrs.frozen
class Finding:
    """What came of one probe: `outcome` is "ok", "refused" (where the server may), or "breach" with its sentences."""

    api: str
    probe: str
    streamed: bool
    outcome: str
    breaches: tuple[str, ...] = ()


@attrs.frozen
class ConformReport:
    """All findings of one server, and the APIs that it does not have."""

    url: str
    model: str
    findings: Sequence[Finding]
    absent: Sequence[str] = ()

    @property
    def breaches(self) -> int:
        """How many probes had an answer that they must not have."""
        return sum(1 for finding in self.findings if finding.outcome == "breach")

    def text(self) -> str:
        """A line for each probe, and below it what is wrong."""
        lines = []
        for each in self.findings:
            way = "stream" if each.streamed else "whole"
            lines.append(f"{each.api:<10} {each.probe:<14} {way:<7} {each.outcome}")
            lines += [f"    {breach}" for breach in each.breaches]
        lines += [f"{api:<10} is not served" for api in self.absent]
        lines.append(f"{len(self.findings)} probes of {self.model} at {self.url}: {self.breaches} breaches")
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """The same as one JSON object."""
        findings = [attrs.asdict(each) for each in self.findings]
        report = {"url": self.url, "model": self.model, "breaches": self.breaches, "absent": list(self.absent)}
        return msgspec.json.format(msgspec.json.encode({**report, "findings": findings}), indent=1).decode() + "\n"
