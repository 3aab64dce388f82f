"""The life of one request: prepared once, streamed from a worker, retried until the first byte has gone out.

Exports nothing: other rooms import the modules. Above: the server. Below: protocols, tokenizer, engines, workers, routing.

What decides:

- `flow`: the flows of a response, with its retries; `steps`: what a flow may ask for; `turn`: what one generation came to.
- `prepare`: from the request to a prompt; `prompted`: the record of it; `media`: the request's pictures, clips and recordings.
- `fit`: what one kind of engine is sent; `reading`: which parser reads its output; `formats`, `schema_work`, `conformance`:
  response formats, the cost of checking one, and the check; `custom_tools`: tools that take free text.
- `output`, `chat_reader`: from an engine's output to events, for engines that take ids and for those that speak chat.
- `attempt`: one call of one engine; `patience`: how long an engine may say nothing; `timeouts`: the time-outs of one request.
- `served`: one model as the gateway serves it; `trace`: what happened to one request.

What waits for something (edges):

- `driver`: runs a flow; `performers`: which of `preparing`, `selecting` and `streaming` performs which step.
- `answer`: the response to one client; `executor`: threads for long work.
"""
