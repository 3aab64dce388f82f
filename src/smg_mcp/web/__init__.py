"""The web as a server of tools: `search`, by a service of the operator's, and `fetch`, which reads a page for a model.

Begin with `tools` (edge). `fetching` (edge) gets what an address has, `page_reading` (edge) has its text read by `reader` (edge),
a program of its own, `reading` marks it as foreign; `services` has the forms of search services.
"""
