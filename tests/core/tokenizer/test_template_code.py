"""What compiled templates mean: the same as in jinja2's own sandbox, whose code makes more calls."""

from typing import Any

import jinja2
import jinja2.ext
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from smg_core.tokenizer.template_code import TemplateEnvironment, renderer_of

OPTIONS: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "extensions": [jinja2.ext.loopcontrols]}
PLAIN = ImmutableSandboxedEnvironment(**OPTIONS)
OURS = TemplateEnvironment(**OPTIONS)


class Lookalike(dict[str, object]):
    """A dict that finds more than it holds, as the objects of marked texts do."""

    def __missing__(self, name: str) -> object:
        return f"made up: {name}"


class Record:
    """An object with fields of its own."""

    role = "a record"
    _hidden = "never shown"


VALUES: dict[str, Any] = {
    "plain": {
        "role": "user",
        "items": "a key that is a method's name",
        "none": None,
        "0": "text",
        "inner": {"role": 1},
    },
    "made": Lookalike(role="assistant"),
    "record": Record(),
    "text": "words {}",
    "many": [{"role": "user", "n": 1}, {"role": "tool"}, {"n": 3}],
    "nothing": None,
    "yes": True,
}
SNIPPETS = (
    "{{ plain.role }} {{ plain['role'] }} {{ plain.inner.role }} {{ plain['inner']['role'] }}",
    "{{ plain.items }}",
    "{{ plain.items() | list | length }} {{ plain.keys() | list }} {{ plain['items'] }} {{ plain.get('role') }}",
    "{{ plain['keys'] is defined }}",
    "{{ plain.missing }}|{{ plain['missing'] }}|{{ plain.missing is defined }}|{{ plain['missing'] is undefined }}",
    "{{ plain.missing.deeper }}",
    "{{ absent }}|{{ absent is defined }}|{{ absent is not none }}|{{ absent.field }}",
    "{{ made.role }} {{ made.other }} {{ made['other'] }}",
    "{{ record.role }} {{ record['role'] }} {{ record.gone }}",
    "{{ record._hidden }}",
    "{{ plain.__class__ }}",
    "{{ plain['__class__'] }}",
    "{{ plain.update({'a': 1}) }}",
    "{{ text.upper() }} {{ text.format('x') }} {{ text['upper']() }}",
    "{{ nothing is none }} {{ yes is true }} {{ yes is false }}",
    "{{ text is string }} {{ plain is string }} {{ plain is mapping }}",
    "{{ many[0].role }} {{ many[-1].role is defined }} {{ many[7] }}",
    "{{ many | selectattr('role', 'equalto', 'tool') | list }} {{ many | map(attribute='n') | list }}",
    "{% for each in many if each.role is defined %}{{ loop.index }}{{ loop.first }}{{ each.role }}{% endfor %}",
    "{% for each in many recursive %}{{ loop.depth }}{{ each.get('n') }}{% endfor %}",
    (
        "{% macro say(a, b='-', c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}"
        "{{ say(1) }} {{ say(1, 2, 3, 4) }} {{ say(plain.role, d=5) }}{% for i in [1] %}{{ say(i) }}{% endfor %}"
    ),
    "{% macro of(message) %}{{ message.role }}{{ text }}{{ absent is defined }}{% endmacro %}{{ of(plain) }}{{ of(a=1) }}",
    "{% macro around() %}<{{ caller() }}>{% endmacro %}{% call around() %}{{ plain.role }}{% endcall %}",
    "{% set text = 'mine' %}{{ text }}{% block inside %}{{ text }}{{ plain.role }}{% endblock %}",
    "{% set ns = namespace(n=0) %}{% for each in many %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ ns.gone }}",
    "{% set kept %}{{ plain.role }}{% endset %}{{ kept }}{% with role = plain.role %}{{ role }}{% endwith %}",
    "{% for each in many %}{% if loop.last %}{% break %}{% endif %}{{ each['role'] | default('none') }}{% endfor %}",
    "{{ 'a' if plain.none is none and absent is undefined else 'b' }} {{ 1 is string }} {{ none is none }}",
    "{{ text is sameas text }} {{ 4 is divisibleby 2 }}",
)


def outcome(render: Any) -> object:
    """The text, or which error was raised with which words."""
    try:
        return render(dict(VALUES))
    except (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("source", SNIPPETS)
def test_a_template_says_the_same_as_in_the_plain_sandbox(source: str) -> None:
    assert outcome(renderer_of(OURS.from_string(source))) == outcome(PLAIN.from_string(source).render)


def test_what_a_text_shows_of_itself_is_what_the_plain_sandbox_shows() -> None:
    for name in (*dir(""), "_hidden", "__gone__", "gone"):
        source = "{{ text." + name + " is defined }} {{ text['" + name + "'] is callable }}"
        assert outcome(renderer_of(OURS.from_string(source))) == outcome(PLAIN.from_string(source).render), name


def test_what_a_loop_shows_of_itself_is_what_the_plain_sandbox_shows() -> None:
    for name in (*dir(LoopContext), "_hidden", "__gone__", "gone"):
        source = (
            "{% for each in many %}{{ loop."
            + name
            + " is defined }} {{ loop['"
            + name
            + "'] is callable }}{% endfor %}"
        )
        assert outcome(renderer_of(OURS.from_string(source))) == outcome(PLAIN.from_string(source).render), name


NAMES = st.sampled_from(["plain", "made", "record", "text", "many", "nothing", "absent", "loop", "self"])
FIELDS = st.sampled_from(
    ["role", "items", "inner", "n", "missing", "get", "upper", "__class__", "_hidden", "0", "format"]
)
STEPS = st.one_of(
    FIELDS.filter(str.isidentifier).map(lambda name: f".{name}"),
    FIELDS.map(lambda name: f"['{name}']"),
    st.integers(-2, 2).map(lambda at: f"[{at}]"),
)
ENDS = st.sampled_from(
    ["", " is defined", " is none", " is string", " is true", " is not undefined", " | string", "()"]
)


@given(NAMES, st.lists(STEPS, max_size=3), ENDS)
def test_any_path_of_fields_leads_to_the_same(name: str, steps: list[str], end: str) -> None:
    source = "{{ " + name + "".join(steps) + end + " }}"
    ours, plain = outcome(renderer_of(OURS.from_string(source))), outcome(PLAIN.from_string(source).render)
    assert without_addresses(ours) == without_addresses(plain)


def without_addresses(found: object) -> object:
    """Text that may show where an object lies in memory."""
    return found.split(" at 0x")[0] if isinstance(found, str) else found


def test_one_rendering_leaves_nothing_for_the_next() -> None:
    render = renderer_of(OURS.from_string("{{ kept is defined }}{% set kept = 1 %}{{ kept }}"))
    assert render({}) == render({}) == "False1"
