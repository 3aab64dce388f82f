"""Files of clients, in the forms of OpenAI, Anthropic and Google.

Begin with `kept` and `blobs`. `place` says where contents lie, `folder` keeps them there, `sweep` forgets what nothing has;
`openai`, `uploads`, `messages` and `gemini` have the routes of the APIs, `inputs` reads files for requests to models.
"""
