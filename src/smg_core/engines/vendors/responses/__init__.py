"""OpenAI's Responses API, and that of every host that speaks it, as an engine.

body     a request as a Responses body: settings, tools, formats
items    its turns as items, each piece of reasoning before the item that it belongs to
events   the stream of an answer as our events
wire     the JSON of that stream, and of errors
format   all of these as the one record that the engine of providers is given
"""
