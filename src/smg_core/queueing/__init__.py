"""The queue before each model: who goes next, waits, or is refused.

Begin with `model_queue`, which decides, and `fair_order`, the order within a band. `capacity` says how full a model's workers
are. Nothing here is loaded while `queue.enabled` is off, but for the settings. Above: `waiting`. Below: limits.
"""
