"""The history in this process's memory, bounded by bytes: for the library, the simulator and tests.

Begin with `store` (edge), which has a lock and a clock; `tables` decides every operation, `room` what goes, `rows` small things.
"""
