"""smg_config_files: JSON and YAML that a person wrote, read strictly.

    from smg_config_files import TextRefused, read_json, read_yaml
    from smg_config_files.changes import Put, with_changes  # single values changed in place, in TOML, JSON, YAML and .env

For every package that reads such files. The standard library alone; `read_yaml` needs PyYAML (the extra `yaml`).
"""

from smg_config_files.text import TextRefused, read_json, read_yaml

__all__ = ["TextRefused", "read_json", "read_yaml"]
