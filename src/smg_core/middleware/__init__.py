"""Middleware of operators: code that sees requests and answers of the gateway, and may change or refuse them.

`base` is the contract of one middleware, `entries` what an operator says of each (order, routes, what happens when it fails),
`chain` runs those of one exchange in order, `checks` looks at everything they change. Only `chain` waits: `server` calls it.
Plugins of `wasm` and of Python are what is called.
"""
