"""Writes docs/configuration.md from the settings themselves; with `--check`, only says whether it is up to date.

python tools/config_docs.py [--check]
"""

import json
import sys
from pathlib import Path

from smg_core.config import Config, Setting, describe

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

<!-- Written by tools/config_docs.py from each room's module `settings`: `make docs` writes it anew. -->

Every setting can be given as a flag of `smg-gateway serve`, as an environment variable, or in a file named by `--config` (or
`SMG_CONFIG`). A flag beats the environment, which beats the file, which beats the default. The file's suffix says its format:
`.json`, `.toml`, and YAML for any other.

```yaml
server:
  port: 8000
  processes: 4
workers:
  urls: [grpc://gpu-0:50051, grpc://gpu-1:50051]
routing:
  policy: least_requests
```

In the environment, lists are separated by commas, and `1`, `true`, `yes` and `on` mean true. A flag of a list may be repeated.
What is not known is refused, with the nearest name: a misspelt setting is never ignored. `smg-gateway config --sources` prints
what results, and where each value came from.

In Python, the same records are built by hand and keep the same bounds:

```python test
from smg_core.config import Config, LimitsConfig, ServerConfig

config = Config(server=ServerConfig(port=9000), limits=LimitsConfig(n=4))
```
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    section = ""
    for setting in describe():
        name = setting.path.partition(".")[0]
        if name != section:
            section = name
            described = (type(getattr(Config(), name)).__doc__ or "").splitlines()[0]
            parts.append(f"\n## {name}\n\n{described}\n\n| setting | type | default | bound |\n|---|---|---|---|\n")
        parts.append(_row(setting))
    return "".join(parts)


def _row(setting: Setting) -> str:
    kind = f"list of {setting.kind}s" if setting.repeated else setting.kind
    default = "none" if setting.default is None else f"`{json.dumps(setting.default)}`"
    names = f"`{setting.path}`<br>`{setting.flag}`<br>`{setting.env}`"
    return f"| {names}<br>{setting.text} | {kind} | {default} | {setting.bound} |\n"


def main() -> int:
    wanted = page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text() == wanted:
            return 0
        print("docs/configuration.md is not what the settings say: run `make docs`", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
