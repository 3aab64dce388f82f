"""Descriptions of functions and parameters from docstrings in Google's, NumPy's and Sphinx's style.

Above: `signature`. Below: nothing. Pure.
"""

import re

__all__ = ["read_docstring"]

_SECTION = re.compile(r"(?i)(args|arguments|parameters|params)\s*:?\Z")
_OTHER = re.compile(
    r"(?i)(attributes|examples?|keyword args|notes?|other parameters|raises|references|returns?|see also|todo|warnings?|warns"
    r"|yields?)\s*:?\Z"
)
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)\Z")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?\Z")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)\Z")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What comes before the first section, and the description of each parameter that has one. `text` is without the
    indentation of the code, as `inspect.getdoc` gives it."""
    lines = text.splitlines()
    before, parameters = [], dict[str, str]()
    at = 0
    while at < len(lines):
        line, after = lines[at].strip(), lines[at + 1].strip() if at + 1 < len(lines) else ""
        underlined = bool(after) and set(after) == {"-"}
        if not lines[at][:1].isspace() and (line.endswith(":") or underlined):
            if _SECTION.match(line):
                at = _section(lines, at + (2 if underlined else 1), parameters, numpy=underlined)
                continue
            if _OTHER.match(line):
                break
        if line.startswith(":"):
            at = _field(lines, at, parameters)
            continue
        before.append(lines[at].rstrip())
        at += 1
    while at < len(lines):  # behind the first section that is none of parameters, they may still come
        line, after = lines[at].strip(), lines[at + 1].strip() if at + 1 < len(lines) else ""
        if _SECTION.match(line) and not lines[at][:1].isspace():
            underlined = bool(after) and set(after) == {"-"}
            at = _section(lines, at + (2 if underlined else 1), parameters, numpy=underlined)
        else:
            at += 1
    return "\n".join(before).strip(), parameters


def _section(lines: list[str], at: int, found: dict[str, str], *, numpy: bool) -> int:
    """Read the parameters of a section that begins at `at`; returns where it ends."""
    names: list[str] = []
    own = None  # how far the names of Google's style are indented
    while at < len(lines):
        line = lines[at]
        depth = len(line) - len(line.lstrip())
        if line.strip():
            if numpy:
                if depth == 0 and (_ends(lines, at) or not _NUMPY.match(line)):
                    return at
            elif depth == 0:
                return at
            own = depth if own is None else own
            match = (_NUMPY if numpy else _GOOGLE).match(line.strip()) if depth <= own else None
            if match is not None:
                names = [each.strip() for each in match.group(1).split(",")]
                for name in names:
                    found[name] = "" if numpy else match.group(2).strip()
            else:
                for name in names:
                    found[name] = f"{found[name]} {line.strip()}".strip()
        at += 1
    return at


def _ends(lines: list[str], at: int) -> bool:
    """Whether another section of NumPy's style begins here."""
    after = lines[at + 1].strip() if at + 1 < len(lines) else ""
    return bool(after) and set(after) == {"-"}


def _field(lines: list[str], at: int, found: dict[str, str]) -> int:
    """Read a field of Sphinx's style, with the lines that belong to it; returns where it ends."""
    match = _SPHINX.match(lines[at].strip())
    text = [match.group(2)] if match is not None else []
    at += 1
    while at < len(lines) and lines[at].strip() and not lines[at].strip().startswith(":"):
        text.append(lines[at].strip())
        at += 1
    if match is not None:
        found[match.group(1)] = " ".join(text).strip()
    return at
