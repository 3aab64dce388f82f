"""Limits of requests, tokens and money: rules, counters, what a request costs.

Begin with `rules`, what a rule says, and `decision`, which asks all rules of a request at once. `counters` is the arithmetic of
one counter, `calendar` the windows of days, weeks and months, `prices` what tokens cost and `prices_file` (edge) where the
tables are read from.
"""
