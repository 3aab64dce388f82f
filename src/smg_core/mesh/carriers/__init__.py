"""The ways in which members of a mesh reach each other, a module each.

Begin with `rows`, the table of them. `local` is between processes of one machine, `valkey` over a server that all ask, and
`gossip` from member to member.
"""
