"""The answer to one client, and one engine call as it sees it.

Begin with `answer`, the response to one client, and `attempt`, one engine call. `receivers` stand between the two, `keep_alive`
decides when nothing is said with a sign of life, `trace` is the account of the request.
"""
