"""From content parts, token ids and a model's files to what an engine is sent.

Begin with `prepare`. `content` remembers what was made of an item, `packaging` and `engine_names` put it as each engine has it,
`shm` (edge) hands it to an engine on this host.
"""
