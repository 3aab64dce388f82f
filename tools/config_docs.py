"""Writes docs/configuration.md and docs/arguments.md from the settings themselves, and docs/hardening.md from the checks of
`smg-gateway audit`; with `--check`, only says whether they are up to date.

python tools/config_docs.py [--check]
"""

import json
import sys
from pathlib import Path

from smg_core.config import Config, Setting, describe, describe_arguments
from smg_core.operation.hardening import BOUNDS, CHECKS, SECRET_FILES

DOCS = Path(__file__).parent.parent / "docs"
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

In Python, the same records are built by hand and keep the same bounds. They have further [arguments](arguments.md): bounds that
no operator was found to have a reason to turn.

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


ARGUMENTS = """# Arguments

<!-- Written by tools/config_docs.py from each room's module `settings`: `make docs` writes it anew. -->

Beside the [settings](configuration.md), the records of a configuration have arguments with defaults that hold for nearly
everybody: bounds of what can grow, and pauses. No flag, no variable and no key of a file sets them. In a program of your own:

```python test
from smg_core.config import Config, EnginesConfig

config = Config(engines=EnginesConfig(message_bytes=128 << 20))
```

`Gateway(config=config)` and `smg_core.processes.serve.serve(config)` take it. If you run `smg-gateway serve` and need one of them
as a setting, say so in an issue, with the reason: that is what makes a setting of it.
"""


def arguments() -> str:
    """The page of the arguments that are no settings."""
    parts = [ARGUMENTS]
    section = ""
    for each in describe_arguments():
        name, field = each.path.split(".")
        if name != section:
            section = name
            record = type(getattr(Config(), name)).__name__
            parts.append(f"\n## {record}\n\n| argument | default | bound |\n|---|---|---|\n")
        default = "none" if each.default is None else f"`{json.dumps(each.default)}`"
        parts.append(f"| `{field}`<br>{each.text} | {default} | {each.bound} |\n")
    return "".join(parts)


HARDENING = """# Hardening

<!-- Written by tools/config_docs.py from smg_core/operation/hardening.py: `make docs` writes it anew. -->

`smg-gateway audit` takes the configuration that `serve` takes, and says of each of these defaults whether it holds; the exit
status is 1 where one does not. Nothing is started, and nobody is asked.

```
$ smg-gateway audit --config gateway.yaml
pass  listener.identity: Who sends a request is asked wherever other machines reach the listener.
FAIL  keys.files: Files with secrets are for their owner alone.
      tls.key: the file has mode 0644; take away what others may do (chmod 600)
```

| check | holds by default | why |
|---|---|---|
"""


def hardening() -> str:
    """The page of the checks."""
    rows = "".join(f"| `{check.name}` | {check.holds} | {check.why} |\n" for check in CHECKS)
    files, bounds = (", ".join(f"`{path}`" for path in paths) for paths in (SECRET_FILES, BOUNDS))
    secrets = f"Files with secrets are those of {files}, and the file of an SQLite history."
    return f"{HARDENING}{rows}\n{secrets} The bounds are {bounds}.\n"


def main() -> int:
    pages = {DOCS / "configuration.md": page(), DOCS / "arguments.md": arguments(), DOCS / "hardening.md": hardening()}
    old = [path for path, wanted in pages.items() if not path.exists() or path.read_text() != wanted]
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"docs/{path.name} is not what the code says: run `make docs`", file=sys.stderr)
        return 1 if old else 0
    for path in old:
        path.write_text(pages[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
