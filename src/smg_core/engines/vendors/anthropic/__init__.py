"""The Messages API of Anthropic, and of every host that speaks it, as an engine.

facts    what one model takes: by the list of models, else by its name
body     a request as a Messages body: settings, tools, formats
turns    its turns
events   the stream of an answer as our events
wire     the JSON of that stream
format   all of these as the one record that the engine of providers is given
"""
