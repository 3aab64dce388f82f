"""The channel between the processes of one gateway: messages that reach all of them in one order, and state that outlives each.

`base` says what a message is, `frames` how messages travel between a process and the supervisor, `relay` what the supervisor
does with them. `member` is a process's end, `relaying` the supervisor's.
"""
