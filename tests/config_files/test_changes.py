"""Changes in files that a person wrote: the value is there, and every line that was not named is as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_config_files.changes import ChangeRefused, Put, with_changes
from smg_config_files.json_changes import read_commented
from smg_config_files.text import TextRefused, read_yaml
from smg_config_files.toml_changes import read_toml
from smg_config_files.yaml_changes import ListItem

NAMES = st.text("abcdef-_", min_size=1, max_size=6)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp", "Co", "Cn", "Cf")), max_size=12
)
SCALARS = st.one_of(st.booleans(), st.integers(-(10**6), 10**6), TEXTS)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
SETTINGS = st.dictionaries(NAMES, TREES, max_size=4)
COMMENTS = st.lists(st.text("abc [{\"'=:,/*", max_size=8), min_size=6, max_size=6)


def kept(before: str, after: str) -> bool:
    """Whether all lines of a text are in another, in order."""
    lines = iter(after.splitlines())
    return all(any(line == each for each in lines) for line in before.splitlines())


def commented(text: str, comments: list[str], mark: str) -> str:
    """A text with comments of their own lines among it."""
    lines = text.splitlines()
    for at, each in enumerate(comments):
        lines.insert(at * len(lines) // len(comments), f"{mark} {each}")
    return "\n".join(lines) + "\n"


def as_toml(said: dict[str, Any]) -> str:
    """Settings as TOML: what is no mapping stands above the tables."""

    def value(each: Any) -> str:
        if isinstance(each, dict):
            return "{" + ", ".join(f"{json.dumps(name)} = {value(inner)}" for name, inner in each.items()) + "}"
        if isinstance(each, list):
            return "[" + ", ".join(map(value, each)) + "]"
        return json.dumps(each, ensure_ascii=False).replace("\x7f", "\\u007f")

    above = [f"{name} = {value(each)}" for name, each in said.items() if not isinstance(each, dict)]
    tables = [
        f"[{name}]\n" + "\n".join(f"{inner} = {value(one)}" for inner, one in each.items())
        for name, each in said.items()
        if isinstance(each, dict)
    ]
    return "\n".join([*above, *tables]) + "\n"


def as_yaml(said: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(said, allow_unicode=True, sort_keys=False)) if said else ""


@pytest.mark.full
@given(SETTINGS, COMMENTS, SCALARS)
def test_what_is_put_into_toml_is_there_and_no_other_line_is_touched(
    said: dict[str, Any], comments: list[str], value: Any
) -> None:
    text = commented(as_toml(said), comments, "#")
    table = {"url": "http://gpu/v1", "odd": value}

    after = with_changes(text, "toml", [Put(("Model",), value), Put(("Providers", "smg"), table)])

    assert read_toml(after) == {**said, "Model": value, "Providers": {"smg": table}}
    assert kept(text, after)
    assert with_changes(after, "toml", [Put(("Model",), value), Put(("Providers", "smg"), table)]) == after
    assert with_changes(after, "toml", [Put(("Model",), "x"), Put(("Model",), value)]) == after


@pytest.mark.full
@given(SETTINGS, COMMENTS, TREES)
def test_what_is_put_into_json_with_comments_is_there_and_no_other_line_is_touched(
    said: dict[str, Any], comments: list[str], value: Any
) -> None:
    text = json.dumps(said, indent=2, ensure_ascii=False).replace("{}", "{\n}") + "\n"
    text = (
        "".join(
            [*[f"{line}\n// {each}\n" for line, each in zip(text.splitlines(), comments * 9, strict=False)][:-1], "}\n"]
        )
        if said
        else text
    )
    puts = [Put(("Model",), value), Put(("Env", "URL"), "http://gpu"), Put(("Env", "KEY"), "none")]
    if read_or_none(text) != said:
        return

    after = with_changes(text, "json", puts)

    assert read_commented(after) == {**said, "Model": value, "Env": {"URL": "http://gpu", "KEY": "none"}}
    assert kept(text, after)
    assert with_changes(after, "json", puts) == after


def read_or_none(text: str) -> Any:
    try:
        return read_commented(text)
    except TextRefused:
        return None


@given(SETTINGS, st.booleans(), SCALARS)
def test_json_in_one_line_is_changed_too(said: dict[str, Any], spaced: bool, value: Any) -> None:
    text = json.dumps(said, separators=None if spaced else (",", ":"))

    after = with_changes(text, "json", [Put(("Model", "name"), value)])

    assert read_commented(after) == {**said, "Model": {"name": value}}


@pytest.mark.full
@given(SETTINGS, COMMENTS, SCALARS, st.lists(st.dictionaries(NAMES, TREES, min_size=1, max_size=3), max_size=3))
def test_what_is_put_into_yaml_is_there_and_no_other_line_is_touched(
    said: dict[str, Any], comments: list[str], value: Any, items: list[dict[str, Any]]
) -> None:
    written = {**said, "Models": items} if items else said
    text = as_yaml(written)
    lines = [
        f"{line}\n{'' if '- ' in line or not line[:1].isalpha() else '# ' + each + chr(10)}"
        for line, each in zip(text.splitlines(), comments * 99, strict=False)
    ]
    commented_text = "".join(lines)
    text = commented_text if yaml_or_none(commented_text) == (written or None) else text
    item = {"name": "smg", "model": value, "roles": ["chat", "edit"], "options": {"length": 5}}
    puts = [Put(("Key",), value), Put(("Models", ListItem("name", "smg")), item)]

    after = with_changes(text, "yaml", puts)

    assert read_yaml(after) == {**said, "Key": value, "Models": [*items, item]}
    assert kept(text, after)
    assert with_changes(after, "yaml", puts) == after
    other = [Put(("Models", ListItem("name", "smg")), {"name": "smg"}), puts[1]]
    assert read_yaml(with_changes(after, "yaml", other)) == read_yaml(after)
    assert kept(text, with_changes(after, "yaml", other))


def yaml_or_none(text: str) -> Any:
    try:
        return read_yaml(text)
    except TextRefused:
        return None


@given(
    st.dictionaries(st.text("ABC_", min_size=1, max_size=4), st.text("abc/: ", max_size=6)),
    COMMENTS,
    st.text("xyz#:/ ", max_size=8),
)
def test_a_variable_is_put_into_its_line_or_behind_all(said: dict[str, str], comments: list[str], value: str) -> None:
    text = commented("".join(f'{name}="{each}"\n' for name, each in said.items()), comments, "#")

    after = with_changes(text, "env", [Put(("Z",), value)])

    assert kept(text, after)
    assert with_changes(with_changes(after, "env", [Put(("Z",), "other")]), "env", [Put(("Z",), value)]) == after


@given(
    st.lists(st.tuples(st.sampled_from(["# a", "x_1 = 1", ""]), st.sampled_from(["\n", "\r\n"])), max_size=6), SCALARS
)
def test_lines_with_mixed_ends_keep_theirs(lines: list[tuple[str, str]], value: Any) -> None:
    text = "".join(f"{line.replace('1', str(at))}{end}" for at, (line, end) in enumerate(lines))

    after = with_changes(text, "toml", [Put(("Model",), value), Put(("Providers", "smg"), {"url": "u"})])

    rest = iter(after.splitlines(keepends=True))
    assert all(any(line == each for each in rest) for line in text.splitlines(keepends=True))


def test_comments_and_order_of_each_form_stay() -> None:
    for form, text, puts, after in (
        (
            "toml",
            (
                '# mine\nmodel = "gpt" # old\napproval = """a\n[no]\n"""\n\n'
                "[model_providers.smg] # ours\nbase = 1\n\n# theirs\n[x]\ny = [1, # one\n 2]\n"
            ),
            [Put(("model",), "sim"), Put(("provider",), "smg"), Put(("model_providers", "smg"), {"a": True})],
            (
                '# mine\nmodel = "sim" # old\napproval = """a\n[no]\n"""\nprovider = "smg"\n\n'
                "[model_providers.smg]\na = true\n\n# theirs\n[x]\ny = [1, # one\n 2]\n"
            ),
        ),
        (
            "json",
            '{ // mine\n  "a": [1, 2,], // "b": 2\n  /* x */ "env": {"HOME": "/"},\n}\n',
            [Put(("env", "URL"), "u"), Put(("a",), 1)],
            '{ // mine\n  "a": 1, // "b": 2\n  /* x */ "env": {\n    "URL": "u",\n    "HOME": "/"},\n}\n',
        ),
        (
            "yaml",
            "name: mine # me\nmodels:\n- name: a\n  note: |\n    text\n\n# between\nrules: []\n",
            [Put(("models", ListItem("name", "smg")), {"name": "smg", "roles": ["chat"]}), Put(("name",), "x")],
            'name: "x" # me\nmodels:\n- name: a\n  note: |\n    text\n- name: "smg"\n  roles: ["chat"]\n\n# between\nrules: []\n',
        ),
        (
            "env",
            "# mine\nexport A=1\r\nB=2",
            [Put(("A",), "x y"), Put(("C",), "3")],
            '# mine\nA="x y"\r\nB=2\r\nC=3\r\n',
        ),
    ):
        said = with_changes(text, form, puts)
        assert said == after if form != "json" else read_commented(said) == read_commented(after), form


@pytest.mark.parametrize(
    ("form", "text", "put"),
    [
        ("toml", "model_providers = {smg = {a = 1}}\n", Put(("model_providers", "smg"), {"a": 2})),
        (
            "toml",
            "[model_providers.smg]\na = 1\n[model_providers.smg.b]\nc = 1\n",
            Put(("model_providers", "smg"), {"a": 2}),
        ),
        ("toml", "model_providers = 1\n", Put(("model_providers", "smg"), {"a": 2})),
        ("json", '{"env": []}', Put(("env", "URL"), "u")),
        ("yaml", "{a: 1}\n", Put(("b",), "u")),
        ("yaml", "models: [{name: a}]\n", Put(("models", ListItem("name", "smg")), {"name": "smg"})),
        ("yaml", "models: &m [1]\nother: *m\n", Put(("models",), "x")),
        ("yaml", "models:\n- name: smg\n- name: smg\n", Put(("models", ListItem("name", "smg")), {"name": "smg"})),
    ],
)
def test_what_cannot_be_put_without_changing_what_is_there_is_refused_by_name(form: str, text: str, put: Put) -> None:
    with pytest.raises(ChangeRefused, match=r"model_providers|env|b |models|two entries"):
        with_changes(text, form, [put])


@pytest.mark.parametrize(
    ("form", "text"),
    [("toml", "a = = 1"), ("json", '{"a" 1}'), ("json", '{"a":1,"a":2}'), ("json", "[" * 99), ("yaml", "a: [")],
)
def test_a_text_that_is_not_of_its_form_is_refused(form: str, text: str) -> None:
    with pytest.raises(TextRefused):
        with_changes(text, form, [Put(("b",), 1)])


@given(st.text(max_size=60), st.sampled_from(["toml", "json", "yaml", "env"]))
def test_no_text_makes_another_error(text: str, form: str) -> None:
    try:
        with_changes(text, form, [Put(("A",), "x"), Put(("B",), "y")])
    except (TextRefused, ChangeRefused):
        return
