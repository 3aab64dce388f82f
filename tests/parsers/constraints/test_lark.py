"""Lark grammars as EBNF for spelled texts, held to the reading of the package lark."""

from __future__ import annotations

import json
from functools import lru_cache
from random import Random
from typing import Any

import lark
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.parsers.ebnf import Ebnf

from smg_parsers.constraints.lark import COMMON, MOST_TOKENS, LarkError, check_lark, ebnf
from smg_parsers.constraints.patterns import JSON, PYTHON, RAW
from smg_simulator.answers.expressions import Unfollowable, example_of_grammar

PATCH = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line
change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF
%import common.LF
"""
PRAGMA = r"""
start: pragma_source | plain_source
pragma_source: PRAGMA_LINE NEWLINE SOURCE
plain_source: SOURCE
PRAGMA_LINE: /[ \t]*\/\/ @exec:[^\r\n]*/
NEWLINE: /\r?\n/
SOURCE: /[\s\S]+/
"""
SUMS = r"""
// sums of products, with white space where one likes
start: product (SIGN product)*
?product: number ("*" number)*
!number: NUMBER
       | "(" start ")"
SIGN.2: "+" | "-"
%import common (NUMBER, WS_INLINE)
%ignore WS_INLINE
"""
QUERY = r"""
start: "SELECT"i column ("," column)~0..2 "FROM"i CNAME [where]
column: CNAME | "*" -> all
where: "WHERE"i CNAME ("=" | "!=") (SIGNED_INT | ESCAPED_STRING)
%import common.CNAME
%import common.SIGNED_INT
%import common.ESCAPED_STRING
%import common.WS -> SPACE
%ignore SPACE
%ignore /--[^\n]*\n/
"""
FLAGS = r"""
start: A | "\"" B~2 "\\" | C "\u00e9" D?
A: /ab.[x-z]/is
B: "a".."c"
C: /[^a-y]/i
D: ("\t" | "ß"i)
"""
GRAMMARS = {"patch": PATCH, "pragma": PRAGMA, "sums": SUMS, "query": QUERY, "flags": FLAGS}
TEXTS = st.text(alphabet=" \n\t\"'\\*+-@,=()abABxyzé1.SELECTFROM", max_size=8)


@lru_cache(maxsize=64)
def peer(grammar: str) -> lark.Lark:
    return lark.Lark(grammar, parser="earley", lexer="dynamic_complete", ambiguity="resolve")


def peer_accepts(grammar: str, text: str) -> bool:
    """Whether the package takes the text. It refuses terminals that match nothing and some repetitions, and fails at some texts
    of nothing but white space: nothing is learnt from those."""
    try:
        peer(grammar.replace("/(.*)/", "/(.+)/?")).parse(text)
    except lark.exceptions.UnexpectedInput:
        return False
    except (lark.exceptions.GrammarError, RuntimeError):
        assume(False)
    return True


def as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_python(text: str) -> str:
    return "".join(PYTHON.escapes.get(char, char) for char in text)


def can_be_written(text: str) -> bool:
    """Whether a spelling has a place for all characters: control characters without an escape are never written."""
    return all(char >= " " or char in "\n\r\t" for char in text)


def text_of(grammar: str, seed: int) -> str:
    """A text of the grammar."""
    try:
        return example_of_grammar(ebnf(grammar, RAW, ""), Random(seed))
    except Unfollowable:
        assume(False)
        raise


def changed(text: str, place: int, other: str) -> str:
    """The text with one place taken out, or replaced."""
    at = place % (len(text) + 1)
    return text[:at] + other + text[at + 1 :]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("name", GRAMMARS)
@given(data=st.data())
def test_a_text_is_taken_where_lark_takes_it_however_it_is_spelled(name: str, data: st.DataObject) -> None:
    grammar = GRAMMARS[name]
    text = data.draw(TEXTS) if data.draw(st.booleans()) else text_of(grammar, data.draw(st.integers(0, 10_000)))
    if data.draw(st.booleans()):
        text = changed(text, data.draw(st.integers(0, 200)), data.draw(st.text(alphabet=' +"*a\n', max_size=1)))
    assume(can_be_written(text) and len(text) < 200)
    expected = peer_accepts(grammar, text)
    assert Ebnf(ebnf(grammar, RAW, "")).accepts(text) == expected
    assert Ebnf(ebnf(grammar, JSON, '"}')).accepts(as_json(text) + '"}') == expected
    assert Ebnf(ebnf(grammar, PYTHON, "')")).accepts(as_python(text) + "')") == expected


ATOMS = st.sampled_from(['"a"', '"b"', '"ab"i', '"\\n"', "/[ab]/", "/[^a]/", "/a+b?/", "T", "U", "rest", '"a".."c"'])


def alternatives(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeated = st.tuples(inner, st.sampled_from(["", "?", "*", "+", "~2", "~0..2"])).map("".join)
    sequence = st.lists(repeated, min_size=1, max_size=3).map(" ".join)
    choice = st.lists(sequence, min_size=1, max_size=3).map(" | ".join)
    return choice.map(lambda body: f"({body})") | choice.map(lambda body: f"[{body}]")


BODIES = st.recursive(ATOMS, alternatives, max_leaves=6)


@pytest.mark.full
@given(BODIES, BODIES, st.booleans(), st.text(alphabet='abAB\n "c', max_size=5), st.integers(0, 1000))
def test_any_grammar_of_the_subset_takes_what_lark_takes(
    body: str, rest: str, ignoring: bool, text: str, seed: int
) -> None:
    rest = rest.replace("rest", '"c"')
    grammar = f'start: {body}\nrest: {rest}\n    | "b" "a"\nT: "a" U?\nU: /b+/ | "c"\n' + (
        "%ignore / +/\n" if ignoring else ""
    )
    for each in (text, text_of(grammar, seed)):
        expected = peer_accepts(grammar, each)
        assert Ebnf(ebnf(grammar, RAW, "")).accepts(each) == expected
        assert Ebnf(ebnf(grammar, JSON, '"')).accepts(as_json(each) + '"') == expected


@pytest.mark.sampled(keep=8)
@pytest.mark.parametrize("name", sorted(name for name in COMMON if not name.startswith("_")))
@settings(max_examples=20)
@given(st.text(alphabet='aZ_09.-+eE"\\ \t\r\n#/*', max_size=6), st.integers(0, 1000))
def test_a_common_terminal_is_larks(name: str, text: str, seed: int) -> None:
    grammar = f"start: {name}\n%import common.{name}\n"
    for each in (text, text_of(grammar, seed)):
        assert Ebnf(ebnf(grammar, RAW, "")).accepts(each) == peer_accepts(grammar, each), each


@pytest.mark.parametrize(
    ("grammar", "why"),
    [
        ("", "no rule named 'start'"),
        ('a: "b"', "no rule named 'start'"),
        ("start: a", "'a' is not defined"),
        ('start: A\nA: b\nb: "c"', "a terminal cannot have the rule 'b'"),
        ('start: "a"\nstart: "b"', "in line 2: 'start' is defined twice"),
        ('start: "a', "begins nothing"),
        ('start: ""', "empty"),
        ('start: ("a"', "')' was expected"),
        ('start: "a"]', "was expected"),
        ('start "a"', "':' was expected"),
        ("start: /(?=a)/", "look-around"),
        ("start: /a/x", "flags"),
        ('start: "b".."a"', "range"),
        ('start: "a"~3..2', "repetition"),
        ('start: "a"~1001', "repetition"),
        ('start: a{"b"}\na{x}: x', "templates"),
        ("%declare A\nstart: A", "%declare"),
        ("%import other.A\nstart: A", "only terminals of 'common'"),
        ("%import common.NOTHING\nstart: NOTHING", "no terminal 'NOTHING'"),
        ("start: " + "(" * 40 + '"a"' + ")" * 40, "nested more than"),
        ("start: " + '"a" ' * 20_000, "more than"),
        ("start: " + "a" * 20_000, "more than"),
        ("start: " + "a|" * 4_000 + "a", f"more than {MOST_TOKENS} words"),
        ("".join(f'r{place}: "a"\n' for place in range(1000)), "definitions"),
        (r'start: "\u00g0"', "an escape"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_reason(grammar: str, why: str) -> None:
    with pytest.raises(LarkError) as raised:
        check_lark(grammar)
    assert why.replace("':'", ":").replace("')'", ")") in str(raised.value)


@given(st.text(alphabet='start:ABab()[]|*+?~".//\\{}%ignoremp, \n-><_!1', max_size=60))
def test_any_text_is_translated_or_refused(text: str) -> None:
    for grammar in (text, "start: " + text):
        try:
            check_lark(grammar)
        except LarkError:
            continue
        Ebnf(ebnf(grammar, JSON, '"'))


def test_rules_that_call_themselves_and_each_other_are_translated_once_each() -> None:
    made: Any = ebnf('start: "(" start? ")" | other\nother: "[" (start | other)? "]"', RAW, "")
    assert len(made.splitlines()) == 3
    assert Ebnf(made).accepts("([()])")
    assert not Ebnf(made).accepts("([()]")
