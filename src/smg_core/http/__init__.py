"""One HTTP exchange, whatever the server: head, body, answer, routes, bounds. Knows no API.

Begin with `exchange`: one request and its answer. `routes` finds the `endpoint`, `framing`, `bodies` and `inflating` bound what
is read, `envelopes` says in whose words an error is, `websocket` is an exchange that goes on in frames. Above: `app`, `server`.
"""
