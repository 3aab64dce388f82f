"""The commands of `smg-gateway` beside `serve`.

Each module is one command or one family of them: `admin` asks the admin door, `plugin` begins and checks components, `audit`
checks logs, `setup` tells programs of a gateway. Begin with `smg_core.cli`, which has the flags.
"""
