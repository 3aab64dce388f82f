"""The web as a server of tools: `search`, by a service of the operator's, and `fetch`, which reads a page for a model.

Begin with `tools` (edge). `fetching` (edge) gets what an address has, within the rules on addresses; `reading` makes text of it,
`services` has the forms of search services.
"""
