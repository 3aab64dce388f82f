"""Engines that take whole requests: servers of the Chat Completions API. A request goes in, events come out.

engine                      `OpenAiEngine`: the client (edge)
asking                      which route a generation is asked at, and who reads the answer; pure, like all below but `pooled`
body, messages, as_written  write a `GenerationRequest` as the body of a request; fields: which of its fields are written
events, chunks              read the stream; answers: read HTTP errors, errors in the stream and the list of models
pooled, pooled_routes       pooled work: what the server can do, and having it done; embeddings, scoring: what is sent and read
speech                      recordings, at OpenAI's routes for them
speaking                    texts that are spoken, at its route for that
"""
