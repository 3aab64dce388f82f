"""The common part of handlers of stored things: lists, locks, expiry.

Begin with `history`, which opens, sweeps and closes the store. `lists`, `locks`, `bells` and `expiry` are what handlers share,
`answers` how they answer, `default_store` where the history is without a setting.
"""
