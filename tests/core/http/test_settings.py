"""Which model a name stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.config.config import Config
from smg_core.http.settings import ModelConfig
from smg_core.settings import ConfigError

MODEL = ModelConfig(
    aliases=("claude-*=big", "claude-haiku-*=small", "claude-haiku-4=tiny", "gpt=big"),
    tenant_aliases=("acme:claude-*=own", "acme:gpt=own:7b", "umbrella:gpt=theirs"),
)


@pytest.mark.parametrize(
    ("name", "tenant", "model"),
    [
        ("claude-sonnet", "", "big"),
        ("claude-haiku-9", "", "small"),
        ("claude-haiku-4", "", "tiny"),
        ("qwen", "", "qwen"),
        ("claude-haiku-4", "acme", "own"),
        ("gpt", "acme", "own:7b"),
        ("gpt", "umbrella", "theirs"),
        ("claude-haiku-4", "umbrella", "tiny"),
        ("gpt", "another", "big"),
    ],
)
def test_a_whole_name_comes_before_the_longest_beginning_and_a_tenants_own_before_those_of_all(
    name: str, tenant: str, model: str
) -> None:
    assert MODEL.served_as(name, tenant) == model


@given(st.text(), st.text())
def test_a_name_without_an_alias_stands_for_itself(name: str, tenant: str) -> None:
    assert ModelConfig().served_as(name, tenant) == name


@pytest.mark.parametrize("entry", ["claude-*=x", ":a=b", "t:=b", "t:a=", "t:a"])
def test_a_tenants_alias_has_all_three_words(entry: str) -> None:
    with pytest.raises(ConfigError, match="expected TENANT:NAME=MODEL"):
        Config(model=ModelConfig(tenant_aliases=(entry,)))
