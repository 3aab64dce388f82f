"""The keys of sealed content: from settings, a file, or drawn."""

import pytest

from smg_core.config import ConfigError, SealingConfig
from smg_core.sealing import SealContext
from smg_core.server.sealing_keys import sealer_of

HERE = SealContext("p")
A, B = "a" * 32, "b" * 32


def test_keys_of_the_settings_and_of_a_file_all_open(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"\n{B}\n")
    both = sealer_of(SealingConfig(keys=(A,), keys_file=str(file)))

    assert sealer_of(SealingConfig(keys=(A,))).open(both.seal(b"x", HERE), HERE) == b"x"
    assert both.open(sealer_of(SealingConfig(keys=(B,))).seal(b"x", HERE), HERE) == b"x"


def test_without_a_key_each_process_draws_one():
    one, other = sealer_of(SealingConfig()), sealer_of(SealingConfig())

    assert one.seal(b"x", HERE) != other.seal(b"x", HERE)


def test_a_short_key_and_a_file_without_keys_are_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")
    for settings, said in (
        (SealingConfig(keys=("unlike",)), "32 characters"),
        (SealingConfig(keys_file=str(tmp_path / "none")), "cannot be read"),
        (SealingConfig(keys_file=str(tmp_path / "empty")), "has no key"),
    ):
        with pytest.raises(ConfigError, match=said) as refused:
            sealer_of(settings)
        assert "unlike" not in str(refused.value)
