"""One request to a model, for every API: admission, time-outs, the answer.

Begin with `inference`, the handler of every generating API, and `services`, what handlers are given. `spec` is the row of an
API, `admission` counts requests, `timeouts` bounds them, `answering` makes the answer, `live` has the settings that count now.
"""
