"""Tools that run in the gateway between the turns of a model.

Begin with `loop`, the flow of a response whose tools run here. `hosted` has the steps and records, `calls` runs tools, `search`
finds them by words.
"""
