"""Operators' code that sees, changes or refuses requests and answers.

`base` is the contract of one middleware, `entries` what an operator says of each (order, routes, what happens when it fails),
`plan` all of them, `chain` runs those of one exchange in order. `checks`, `request_checks` and `asgi_messages` look at everything
they change. `asking` makes one call of a hook, and `own_task` keeps the task of a request from the code that runs in it. Plugins
of `wasm` and of Python are what is called.
"""
