"""This process's share of the machine: CPUs, memory, scratch folder, locks.

Begin with `cpus` and `memory`. `loop_watch` measures the event loop, `scratch` is the temporary folder, `process_lock` a lock
between processes, `service_manager` talks to systemd.
"""
