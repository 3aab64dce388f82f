"""What this process has of the machine: CPUs, memory, scratch folder, locks, and how late its event loop runs."""
