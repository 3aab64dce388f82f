"""Whether a call of a tool may be made (`approval`), and what was decided about calls (`audit`). Pure."""
