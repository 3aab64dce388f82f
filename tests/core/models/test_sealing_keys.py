"""The keys of sealed content: from settings, a file, or drawn."""

import pytest

from smg_core.models.sealing_keys import Sealing
from smg_core.sealing.sealer import SealContext
from smg_core.sealing.settings import SealingConfig
from smg_core.settings import ConfigError

HERE = SealContext("p")
A, B = "a" * 32, "b" * 32


def test_keys_of_the_settings_and_of_a_file_all_open(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"\n{B}\n")
    both = Sealing.of(SealingConfig(keys=(A,), keys_file=str(file))).sealer

    assert Sealing.of(SealingConfig(keys=(A,))).sealer.open(both.seal(b"x", HERE), HERE) == b"x"
    assert both.open(Sealing.of(SealingConfig(keys=(B,))).sealer.seal(b"x", HERE), HERE) == b"x"


def test_without_a_key_each_process_draws_one():
    one, other = Sealing.of(SealingConfig()).sealer, Sealing.of(SealingConfig()).sealer

    assert one.seal(b"x", HERE) != other.seal(b"x", HERE)


def test_a_short_key_and_a_file_without_keys_are_refused(tmp_path):
    (tmp_path / "empty").write_text("\n")
    for settings, said in (
        (SealingConfig(keys=("unlike",)), "32 characters"),
        (SealingConfig(keys_file=str(tmp_path / "none")), "cannot be read"),
        (SealingConfig(keys_file=str(tmp_path / "empty")), "has no key"),
    ):
        with pytest.raises(ConfigError, match=said) as refused:
            Sealing.of(settings)
        assert "unlike" not in str(refused.value)
