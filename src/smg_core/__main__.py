"""`smg-gateway`, also as `python -m smg_core` (edge).

What the commands need is loaded inside: whoever presses Ctrl-C meanwhile is answered as later, with a status and without a
traceback.
"""

__all__: list[str] = []


def main() -> int:
    """Run the command that the process's arguments name. Returns the exit status."""
    try:
        from smg_core import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":  # processes that serve beside the first import this module again
    raise SystemExit(main())
