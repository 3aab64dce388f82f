"""Bringing media here: the only code of these packages that opens connections and files.

Begin with `fetch` (edge). `guarded` is one request to an address that was judged; `egress` says which may be asked.
"""
