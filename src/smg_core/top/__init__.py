"""`smg-gateway top`: a running gateway in a terminal, from its admin door. Exports nothing; import from the modules.

- `figures`: what two readings of the metrics say together
- `screen`: the picture of it, made with the package rich
- `command` (edge): asks the door, again and again
"""
