"""The times in which tokens must come, and the workers for them.

Begin with `objectives`, which the choice of a worker and the queues ask; `learning` is the model of a worker, which learns from
every answer. Nothing here is loaded while `routing.objectives` is off.
"""
