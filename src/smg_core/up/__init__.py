"""`smg-gateway up`: engines and a gateway on one machine, from one file. Exports nothing.

- `plan`: what a file says is to run, checked
- `child` (edge): one program: started, its lines with its name before them, stopped
- `supervisor` (edge): all of them: order, health, restarts, leaving
- `command` (edge): the flags, the file, and the ports
"""
