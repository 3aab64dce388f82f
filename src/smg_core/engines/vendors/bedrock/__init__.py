"""Amazon Bedrock: its own format, Converse, and the Messages of Anthropic's models, over AWS's event stream.

event_stream   bytes of AWS's event stream to its messages
"""
