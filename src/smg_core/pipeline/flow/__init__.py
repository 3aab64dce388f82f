"""Flows ask for steps, the driver performs them: turns, tries, several requests as one."""
