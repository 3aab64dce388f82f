"""/parse/reasoning and /parse/function_call: the parsers as routes.

Begin with `routes` (edge), the row; `wire` has the bodies.
"""
