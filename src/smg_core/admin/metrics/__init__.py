"""Metrics of a gateway that is served: where they are kept, who reads them, and what is looked at for gauges.

Begin with `meter`, which keeps the series of this process; `serving` has the routes that they are read from, `sampling` looks
at the gateway for gauges.
"""
