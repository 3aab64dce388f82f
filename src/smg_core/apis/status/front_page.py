"""The HTML page at `/`: the models that are served, and a request to try. It loads nothing from other servers. Pure."""

from collections.abc import Sequence
from html import escape

__all__ = ["front_page"]

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem;color:#222;background:#fff}"
    "pre{background:#f4f4f4;padding:1rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}a{color:#8ab4f8}}"
)
NAMED = 50  # models that the page names


def front_page(models: Sequence[str], *, ready: bool, trial: str) -> bytes:
    """The page. `models` are the names that are served; `ready`: a worker is ready; `trial` is a command line to try."""
    listed = "".join(f"<li><code>{escape(name)}</code></li>" for name in models[:NAMED])
    more = f"<p>and {len(models) - NAMED} more</p>" if len(models) > NAMED else ""
    state = "A worker is ready." if ready else "No worker is ready yet: requests get 503 until one has joined."
    body = (
        f"<h1>SMG gateway</h1><p>{state}</p>"
        + (f"<h2>Models</h2><ul>{listed}</ul>{more}<h2>Try it</h2><pre>{escape(trial)}</pre>" if models else "")
        + "<p><a href='docs'>every route</a> &middot; <a href='v1/models'>/v1/models</a> &middot; "
        "<a href='health'>/health</a></p>"
    )
    meta = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    head = f"{meta}<title>SMG gateway</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>".encode()
