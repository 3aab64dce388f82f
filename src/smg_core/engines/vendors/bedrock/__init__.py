"""Amazon Bedrock: its own format, Converse, and the Messages of Anthropic's models, over AWS's event stream.

converse       `ConverseFormat`: Converse as a `WireFormat`
converse_body  a request as the body of ConverseStream
converse_turns its messages as turns
converse_events the events of ConverseStream as ours
converse_wire  the shapes of its events
families       what each family of models takes
invoke         `InvokeMessagesFormat`: Messages of Anthropic's models by InvokeModel
answer         what the readers of both streams have alike
concepts       what becomes of each concept of a request
refusals       the errors of the service
event_stream   bytes of AWS's event stream to its messages
"""
