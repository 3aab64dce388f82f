"""Where settings come from, which source wins, and what is said when one is wrong."""

import json
import subprocess
import sys

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core import config
from smg_core.config.config import Config, describe, describe_arguments, load_config, resolve, to_yaml, without_password
from smg_core.http.settings import ServerConfig
from smg_core.settings import ConfigError, Setting, complaint, shape_of
from smg_core.wire.settings import LimitsConfig
from smg_core.workers.settings import WorkersConfig

MOST_SETTINGS = 220


def problems(*args, **kwargs) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_config(*args, **kwargs)
    return caught.value.problems


# --------------------------------------------------------------------------------------------------------- precedence


def test_without_any_source_every_setting_has_its_default() -> None:
    config = load_config()

    assert {setting.path: setting.default for setting in describe()} == {
        setting.path: config.get(setting.path) for setting in describe()
    }


def test_a_flag_beats_the_environment_which_beats_the_file() -> None:
    file = "server: {port: 1, connections: 2, host: file}"
    environ = {"SMG_SERVER_PORT": "3", "SMG_SERVER_CONNECTIONS": "4"}

    resolved = resolve({"server.port": "5"}, environ, file)

    assert resolved.config.server == ServerConfig(port=5, connections=4, host="file")
    assert [resolved.sources[f"server.{name}"] for name in ("port", "connections", "host", "processes")] == [
        "flag: --port",
        "environment: SMG_SERVER_CONNECTIONS",
        "config.yaml: server.host",
        "default",
    ]


def test_a_list_from_a_stronger_source_replaces_the_weaker_ones() -> None:
    config = load_config(
        {"workers.urls": ["grpc://flag:1"]},
        {"SMG_WORKERS_URLS": "grpc://env:1, grpc://env:2"},
        "workers: {urls: [grpc://file:1]}",
    )

    assert config.workers.urls == ("grpc://flag:1",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", "server:\n  port: 9\n  drain_s: 5\nworkers:\n  urls: grpc://a:1\n"),
        ("c.yml", "server: {port: 9, drain_s: 5}\nworkers: {urls: [grpc://a:1]}\nrouting:\n"),
        ("c.json", '{"server": {"port": 9, "drain_s": 5}, "workers": {"urls": ["grpc://a:1"]}}'),
        ("c.toml", '[server]\nport = 9\ndrain_s = 5\n[workers]\nurls = ["grpc://a:1"]\n'),
    ],
)
def test_the_suffix_says_which_format_the_file_is_in(name: str, text: str) -> None:
    config = load_config(file_text=text, file_name=name)

    assert config == Config(server=ServerConfig(port=9, drain_s=5.0), workers=WorkersConfig(urls=("grpc://a:1",)))
    assert isinstance(config.server.drain_s, float)


def test_an_empty_file_changes_nothing() -> None:
    assert load_config(file_text="# nothing yet\n") == Config()


@pytest.mark.parametrize("word", ["1", "true", "Yes", "ON"])
def test_the_words_for_true_in_the_environment(word: str) -> None:
    assert load_config(environ={"SMG_SERVER_ACCESS_LOG": word}).server.access_log is True


@pytest.mark.parametrize("word", ["0", "false", "No", "off"])
def test_the_words_for_false_in_the_environment(word: str) -> None:
    assert load_config(environ={"SMG_SERVER_DOCS": word}).server.docs is False


def test_an_empty_variable_unsets_what_may_be_absent() -> None:
    config = load_config(environ={"SMG_TOKENIZER_PATH": "", "SMG_WORKERS_URLS": ""}, file_text="tokenizer: {path: x}")

    assert (config.tokenizer.path, config.workers.urls) == (None, ())


# ------------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("server: {port: '80'}", "config.yaml: server.port: expected integer"),
        ("server: {port: true}", "config.yaml: server.port: expected integer"),
        ("server: {port: 8.5}", "config.yaml: server.port: expected integer"),
        ("server: {port: null}", "config.yaml: server.port: expected integer"),
        ("server: {host: 1}", "config.yaml: server.host: expected string"),
        ("server: {access_log: 1}", "config.yaml: server.access_log: expected boolean"),
        ("server: {drain_s: .nan}", "config.yaml: server.drain_s: expected number"),
        ("server: {drain_s: .inf}", "config.yaml: server.drain_s: expected number"),
        ("server: {port: 65536}", "config.yaml: server.port: 65536 is above 65,535"),
        ("limits: {n: 0}", "config.yaml: limits.n: 0 is below 1"),
        ("tokenizer: {path: 1}", "config.yaml: tokenizer.path: expected string or null"),
        ("workers: {urls: [1]}", "config.yaml: workers.urls: expected list of strings, none of them empty"),
        ("workers: {urls: ['']}", "config.yaml: workers.urls: expected list of strings, none of them empty"),
        ("workers: {urls: {a: b}}", "config.yaml: workers.urls: expected list of strings, none of them empty"),
        (
            "workers: {transport: h3}",
            'config.yaml: workers.transport: expected one of h2, grpcio, not "h3"; did you mean h2?',
        ),
        ("server: {prot: 1}", "config.yaml: server.prot: no such setting; did you mean port?"),
        ("servers: {port: 1}", "config.yaml: servers: no such section; did you mean server?"),
        ("server: 8000", "config.yaml: server: expected settings below it"),
        ("[1, 2]", "config.yaml: expected sections ("),
        ("server:\n  port: 1\n  port: 2\n", "config.yaml: line 3: port is given twice"),
        ("server: {}\nserver: {}\n", "config.yaml: line 2: server is given twice"),
        ("server: [", "config.yaml: while parsing"),
        ("server: !!python/object/apply:os.getcwd []", "config.yaml: could not determine a constructor"),
    ],
)
def test_a_wrong_file_is_answered_with_the_place(file: str, said: str) -> None:
    (problem,) = problems(file_text=file)

    assert problem.startswith(said)


def test_a_key_given_twice_in_json_is_refused() -> None:
    assert problems(file_text='{"server": {"port": 1, "port": 2}}', file_name="c.json") == (
        "c.json: port is given twice",
    )


@pytest.mark.parametrize(("name", "text"), [("c.json", "{"), ("c.toml", "x = ")])
def test_a_file_that_is_not_its_format_is_refused_by_name(name: str, text: str) -> None:
    (problem,) = problems(file_text=text, file_name=name)

    assert problem.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SMG_SERVER_PORT", "eighty", 'environment: SMG_SERVER_PORT: expected integer, not "eighty"'),
        ("SMG_SERVER_PORT", "", 'environment: SMG_SERVER_PORT: expected integer, not ""'),
        ("SMG_SERVER_DRAIN_S", "nan", "environment: SMG_SERVER_DRAIN_S: expected number, not NaN"),
        ("SMG_SERVER_ACCESS_LOG", "perhaps", 'environment: SMG_SERVER_ACCESS_LOG: expected boolean, not "perhaps"'),
        ("SMG_SERVER_PROT", "1", "environment: SMG_SERVER_PROT: no such setting; did you mean SMG_SERVER_PORT?"),
    ],
)
def test_a_wrong_variable_is_answered_with_its_name(name: str, value: str, said: str) -> None:
    assert problems(environ={name: value}) == (said,)


@pytest.mark.parametrize("name", ["SMG_API_TOKEN", "SMG_VERSION", "SMG_MODEL_PATH", "SMG_SERVER_IMAGE_TAG", "SMG_"])
def test_a_variable_that_is_near_no_setting_is_somebody_elses(name: str) -> None:
    resolved = resolve(environ={name: "1"})

    assert resolved.config == Config()
    assert resolved.warnings == (f"environment: {name}: no such setting; it is ignored",)


@pytest.mark.sampled(keep=60)
@pytest.mark.parametrize("setting", describe(), ids=lambda setting: setting.path)
def test_a_misspelled_variable_is_told_its_neighbour_in_the_same_section(setting: Setting) -> None:
    name = setting.env + setting.env[-1]
    (problem,) = problems(environ={name: "1"})

    assert problem == f"environment: {name}: no such setting; did you mean {setting.env}?"


def test_a_secret_is_not_repeated_when_it_is_wrong() -> None:
    shape = attrs.evolve(shape_of(attrs.fields(ServerConfig).port), secret=True)

    assert complaint(shape, "hunter2") == "expected integer"
    assert "hunter2" in str(complaint(attrs.evolve(shape, secret=False), "hunter2"))


def test_a_long_wrong_value_is_cut() -> None:
    assert len(str(complaint(shape_of(attrs.fields(ServerConfig).port), "x" * 10_000))) < 100


def test_all_problems_of_all_sources_are_told_at_once() -> None:
    told = problems({"server.port": "x"}, {"SMG_LIMITS_N": "0"}, "server: {hots: a}")

    assert told == (
        "config.yaml: server.hots: no such setting; did you mean host?",
        "environment: SMG_LIMITS_N: 0 is below 1",
        '--port: expected integer, not "x"',
    )


def test_an_unknown_path_among_the_flags_is_refused() -> None:
    assert problems({"server.prot": 1}) == ("flag: server.prot: no such setting; did you mean server.port?",)


@pytest.mark.full
def test_what_only_python_sets_is_refused_everywhere_with_the_record_that_takes_it() -> None:
    for argument in describe_arguments():
        section, name = argument.path.split(".")
        record = type(getattr(Config(), section)).__name__
        said = f"no setting; in Python it is an argument, smg_core.config.{record}({name}=...)"

        assert problems({argument.path: 1}) == (f"flag: {argument.path}: {said}",)
        assert problems({}, {argument.env: "1"}) == (f"environment: {argument.env}: {said}",)
        assert problems({}, {}, f"{section}: {{{name}: 1}}") == (f"config.yaml: {argument.path}: {said}",)
        assert attrs.fields_dict(getattr(config, record))[name].metadata["text"] == argument.text


def test_there_are_few_settings() -> None:
    """Each is there because an operator has a reason to turn it: where its value depends on the machine, the network, the engines
    or who the users are. Another one is an argument in Python; a new setting says its reason in its commit."""
    assert len(describe()) <= MOST_SETTINGS


def test_a_record_built_by_hand_keeps_the_same_bounds() -> None:
    with pytest.raises(ConfigError, match=r"ServerConfig.port: 70000 is above 65,535"):
        ServerConfig(port=70_000)
    with pytest.raises(ConfigError, match="expected integer"):
        LimitsConfig(n="2")  # type: ignore[arg-type]


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="one is given without the other"):
        Config(workers=WorkersConfig(tls_cert="a.pem"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SMG_SERVER_PORT", "tcp://10.0.0.7:80"),
        ("SMG_SERVER_PORT_80_TCP", "tcp://10.0.0.7:80"),
        ("SMG_SERVER_PORT_80_TCP_PROTO", "tcp"),
        ("SMG_SERVER_PORT_80_TCP_ADDR", "10.0.0.7"),
        ("SMG_GATEWAY_SERVICE_HOST", "10.0.0.7"),
        ("SMG_GATEWAY_SERVICE_PORT_HTTP", "80"),
    ],
)
def test_what_kubernetes_says_of_a_service_is_no_setting(name: str, value: str) -> None:
    assert load_config(environ={name: value}) == Config()


def test_variables_of_others_and_the_name_of_the_file_are_left_alone() -> None:
    assert load_config(environ={"PATH": "/bin", "SMG_CONFIG": "a.yaml", "smg_server_port": "x"}) == Config()


# ---------------------------------------------------------------------------------------------------------- the settings


def test_names_of_settings_flags_and_variables_are_unique() -> None:
    for attribute in ("path", "flag", "env"):
        names = [getattr(setting, attribute) for setting in describe()]
        assert len(set(names)) == len(names)


def test_every_setting_has_a_sentence_and_every_number_a_bound() -> None:
    for setting in describe():
        assert setting.text.endswith("."), setting.path
        if setting.kind in {"integer", "number"}:
            assert setting.at_least is not None, setting.path
            assert setting.at_most is not None, setting.path


@pytest.mark.parametrize(
    "entry",
    [
        "m",
        "m=",
        "=token:3",
        "m=token",
        "m=tokens:3",
        "m=token:",
        "m=token:nan",
        "m=token:-1",
        "m=token:x",
        "m=token:1e9",
    ],
)
def test_a_time_out_of_a_model_that_is_none_is_refused_with_its_text(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"timeouts\.models: "):
        load_config({"timeouts.models": [entry]})


def test_a_path_that_is_none_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Config().get("server.nothing")


def test_the_bound_is_said_in_words() -> None:
    said = {setting.path: setting.bound for setting in describe()}

    assert said["server.port"] == "0 to 65,535"
    assert said["workers.transport"] == "one of h2, grpcio"
    assert said["server.host"] == ""


ROWS = {
    "model.aliases": ["a=b", "claude-*=qwen"],
    "model.tenant_aliases": ["t:a=b", "acme:claude-*=qwen:7b"],
    "routing.splits": ["a=b:1", "qwen=qwen:9.5,llama:0.5"],
    "routing.fallbacks": ["a=b", "qwen=llama,mistral"],
    "pooling.prefixes": ["query=q: ", "a/b/document=d="],
    "pooling.scoring": ["sim=cosine", "a/b=generative"],
    "proxies.trusted": ["10.0.0.0/8", "::1"],
    "workers.adapters": ["sql=llama:/adapters/sql", "a=b:c"],
}
"""Rows of settings that are lists of a form of their own."""
WHOLE = {
    "realtime.udp_ports": ["", "50000-50999", "203.0.113.7:40000-40000"],
    "routing.shadows": [(), ("a=b:1",), ("a=b:0.25", "c=d:0.5")],
}
"""Values of settings that must be right as a whole."""


def values_of(setting: Setting) -> st.SearchStrategy[object]:
    """Any value the setting may have."""
    text = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")))
    if setting.path == "timeouts.models":
        timeout = st.sampled_from(["first_token:30", "stream:0.5", "request:"])
        return st.lists(st.builds("{}={}".format, text.filter(bool), timeout), max_size=3).map(tuple)
    if setting.path in ROWS:
        return st.lists(st.sampled_from(ROWS[setting.path]), max_size=2, unique=True).map(tuple)
    if setting.path in WHOLE:
        return st.sampled_from(WHOLE[setting.path])
    if setting.repeated:
        if setting.choices:
            return st.lists(st.sampled_from(setting.choices), max_size=3).map(tuple)
        return st.lists(text.filter(bool), max_size=3).map(tuple)
    if setting.choices:
        return st.sampled_from(setting.choices)
    low, high = setting.at_least, setting.at_most
    kinds = {
        "boolean": st.booleans(),
        "string": text,
        "integer": st.integers(int(low or 0), int(high or 0)),
        "number": st.floats(low, high, allow_nan=False),
    }
    return st.none() | kinds[setting.kind] if setting.optional else kinds[setting.kind]


configs = st.fixed_dictionaries(
    {}, optional={setting.path: values_of(setting) for setting in describe() if "tls" not in setting.path}
)


@pytest.mark.full
@given(configs)
def test_what_is_printed_loads_to_the_same_configuration(overrides: dict[str, object]) -> None:
    config = load_config({path: list(v) if isinstance(v, tuple) else v for path, v in overrides.items()})

    printed = to_yaml(config)

    if "***" not in printed:  # nothing was masked
        assert load_config(file_text=printed) == config


@pytest.mark.full
@given(configs)
def test_flags_variables_and_files_read_the_same_value_alike(overrides: dict[str, object]) -> None:
    plain = {
        path: value
        for path, value in overrides.items()
        if not isinstance(value, tuple) and value is not None and not (isinstance(value, str) and not value)
    }
    by_path = {setting.path: setting for setting in describe()}
    environ = {by_path[path].env: str(value) for path, value in plain.items()}
    nested: dict[str, dict[str, object]] = {}
    for path, value in plain.items():
        section, name = path.split(".")
        nested.setdefault(section, {})[name] = value

    from_flags = load_config({path: str(value) for path, value in plain.items()})

    assert from_flags == load_config(environ=environ)
    assert from_flags == load_config(file_text=json.dumps(nested), file_name="c.json")


@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize(
    "text", ["a\u2028b", "a\u2029b", "\ufeffa", "a\x85b", "\x7f", "\uffff", "😀 é", 'a"b\\c', "# no comment"]
)
def test_characters_that_yaml_treats_specially_are_printed_so_that_they_come_back(text: str) -> None:
    config = load_config({"model.name": text})

    assert load_config(file_text=to_yaml(config)) == config


@pytest.mark.parametrize("seconds", [5e-324, 1e-05, 1.5e-07, 30.0])
def test_small_numbers_come_back_as_numbers(seconds: float) -> None:
    config = load_config({"server.keep_alive_s": seconds})

    assert load_config(file_text=to_yaml(config)) == config


def test_passwords_in_addresses_are_masked_in_print_but_not_in_use() -> None:
    config = load_config({"workers.urls": ["grpc://user:p4ss@a:1"]})

    assert "p4ss" not in to_yaml(config)
    assert "grpc://***@a:1" in to_yaml(config)
    assert config.workers.urls == ("grpc://user:p4ss@a:1",)


@pytest.mark.parametrize("password", ["p4ss", "p4ss@x", "p4ss/x", "x/p4ss@y", "p4ss:x#?p4ss"])
def test_a_password_is_masked_whatever_it_holds(password: str) -> None:
    assert without_password(f"grpc://user:{password}@a:1, http://b/c") == "grpc://***@a:1, http://b/c"
    assert without_password(f'["http://a", "redis://:{password}@c"]') == '["http://a", "redis://***@c"]'


def test_sources_are_printed_beside_their_values() -> None:
    resolved = resolve({"server.port": "5"})

    printed = to_yaml(resolved.config, resolved.sources)

    assert "  port: 5  # flag: --port\n" in printed
    assert '  host: "127.0.0.1"  # default\n' in printed


def test_settings_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Config().server.port = 1  # type: ignore[misc]


def test_off_in_yaml_is_the_word_where_it_is_one_of_the_choices() -> None:
    config = load_config(file_text="mcp: {serve: off}\nmesh: {kind: off}\nproxies: {headers: off}\n")

    assert (config.mcp.serve, config.mesh.kind, config.proxies.headers) == ("off", "off", "off")
    assert problems(file_text="mcp: {serve: on}") == (
        'config.yaml: mcp.serve: expected one of off, stateless, sessions, not "true"',
    )
    assert problems(file_text="model: {parser: off}") == ("config.yaml: model.parser: expected string, not false",)


@pytest.mark.full
def test_yaml_is_not_loaded_until_it_is_read() -> None:
    code = "import sys, smg_core.config as c; c.load_config(file_text='', file_name='a.toml'); print('yaml' in sys.modules)"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout == "False\n"
