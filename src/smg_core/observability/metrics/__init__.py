"""Metrics: what a gateway counts and measures, from the moments of `hooks`. Exports nothing; import from the modules.

- `metric`: what a metric is; `table` has all of them, `smg_names` the same facts under the names of SMG
- `series`: where the numbers are, in memory that processes share
- `recording`: the observer that writes them
- `exposition`: the numbers as the text formats of Prometheus and OpenMetrics
- `dashboard`: a dashboard and alert rules, made of the table
"""
