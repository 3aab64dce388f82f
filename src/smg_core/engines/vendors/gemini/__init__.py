"""generateContent of Google's Gemini API, and of Vertex, as an engine.

facts     what one model takes, by its name
body      a request as a generateContent body: settings, tools, formats
contents  its turns, with each signature on the part that it came on
events    the stream of an answer as our events
wire      the JSON of that stream, and of errors
format    all of these as the one record that the engine of providers is given
"""
