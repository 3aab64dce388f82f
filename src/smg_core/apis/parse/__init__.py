"""/parse/reasoning and /parse/function_call: the parsers as routes."""
