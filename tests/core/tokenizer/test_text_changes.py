"""What a template does to the text that it is given, by its syntax tree."""

import jinja2
import pytest

from smg_core.tokenizer.text_changes import TextChanges, read_changes


def changes(source: str) -> TextChanges:
    return read_changes(jinja2.Environment().parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "{{ m.content }}{{ 'a' ~ m.content + 'b' }}{{ tools | tojson }}{{ m.content | default('') | length }}",
        "{% if m.content.startswith('<') %}{{ m.get('name') }}{% endif %}{% for k in d.items() %}{{ k }}{% endfor %}",
        "{% for m in messages[1:] %}{{ m.content }}{% endfor %}{{ (messages | last).content }}",
        "{% set rest = messages[1:] %}{% set users = rest | selectattr('role') | list %}{{ users[-2:] | map(attribute='x') }}",
        "{{ loop.index0 % 2 }}{{ [1, 2] | reverse | list }}",
    ],
)
def test_what_only_joins_texts_leaves_them_together(source: str) -> None:
    assert not changes(source).splits_text


@pytest.mark.parametrize(
    "source",
    [
        *(
            "{{ m.content[1:] }}",
            "{{ m.content | reverse }}",
            "{{ m.content | list | join }}",
            "{{ m.content | truncate(9) }}",
        ),
        *(
            "{{ m.content.expandtabs() }}",
            "{{ '%.3s' % m.content }}",
            "{{ m.content | map('first') }}",
            "{{ x | first }}",
        ),
        "{% set messages_too = m.content %}{{ messages_too[2:] }}",
        "{% set rest = messages %}{% set rest = m.content %}{{ rest[2:] }}",
    ],
)
def test_what_is_not_known_may_take_a_text_apart_anywhere(source: str) -> None:
    assert changes(source).splits_text
    assert changes(source).anywhere


@pytest.mark.parametrize(
    ("source", "removed"),
    [
        ("{{ m.content.replace('/think', '') }}", {("/think", "")}),
        ("{{ m.content | replace('a', 'b') }}", {("a", "b")}),
        ("{{ m.content.replace('a', b) }}", {("a", None)}),
        ("{{ m.content.split('</think>')[-1] }}", {("</think>", None)}),
        ("{{ m.content.removeprefix('x') }}", {("x", "")}),
        ("{{ m.content.strip('<>') }}", {("<", None), (">", None)}),
        ("{{ m.content | trim }}", {(" ", None), ("\n", None), ("\t", None), ("\r", None)}),
        ("{% set end = 'E' %}{{ m.content.split(end) }}", {("E", None)}),
        ("{{ m.content | upper }}", set()),
        ("{{ texts | map('replace', 'a', '') }}", {("a", "")}),
    ],
)
def test_what_a_template_removes_is_named(source: str, removed: set[tuple[str, str | None]]) -> None:
    found = changes(source)
    assert found.splits_text
    assert not found.anywhere
    assert found.removed == removed
