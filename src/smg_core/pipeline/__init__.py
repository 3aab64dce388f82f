"""The life of one request: prepared, streamed from a worker, retried.

- `prompt`: from the request to a prompt that any engine of its model can be sent
- `fit`: what one kind of engine is sent for it; `output`: from what the engine answers to events
- `answer`: the response to one client, and an engine call as the response sees it
- `flow`: flows ask for steps, `flow.driver` performs them
- `calls`: performs the steps: prepares, selects a worker, streams, hedges
- `pairs`: several engines for one request; `tools`: tools between the turns; `pooled`: embeddings and scores
- `performers`: the table of who performs which step
"""
