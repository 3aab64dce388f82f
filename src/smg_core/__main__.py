"""`python -m smg_core` is `smg-gateway` (edge)."""

from smg_core.cli import main

if __name__ == "__main__":  # processes that serve beside the first import this module again
    raise SystemExit(main())
