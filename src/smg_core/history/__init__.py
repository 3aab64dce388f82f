"""The history: what is kept of responses, conversations and other objects after they were answered.

`base` has the records and the role of a store; `memory` keeps them in this process, other modules in databases. `guard` is what
the gateway holds: a store behind its rules (names, retention, zero retention, encryption, hooks). Nothing here knows an API.
"""
