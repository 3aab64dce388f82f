"""Messages and state that all processes of one gateway share, in one order.

Begin with `base`, what the processes tell each other. `member` is a process's end and `relay` with `relaying` the supervisor's;
`local` is the channel of one process alone, `frames` the form on the wire, and `settling` waits until all have made a change.
"""
