"""Metrics of a gateway that is served: where they are kept, who reads them, and what is looked at for gauges."""
