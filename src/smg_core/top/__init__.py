"""`smg-gateway top`: workers, requests, tokens and errors of a running gateway, from its admin door. Exports nothing; import from
the modules.

- `figures`: what two readings of the metrics say together
- `screen`: the picture of it, made with the package rich
- `command` (edge): asks the door, again and again
"""
