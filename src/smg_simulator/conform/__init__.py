"""Whether a server's answers are what clients of its APIs rely on: `smg-gateway conform`.

`probes` has the requests that are sent, the modules `*_stream` the grammars of streams as tables, `shapes` the fields that
answers must have, `contents` what a whole answer says, `answers` the verdict on one answer, `report` the result as text and JSON,
and `asking` (edge) sends. Above: cli.
"""
