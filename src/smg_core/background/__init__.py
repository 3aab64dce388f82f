"""Answers that are made in the background: kept, run by a process that holds a lease, followed and cancelled."""
