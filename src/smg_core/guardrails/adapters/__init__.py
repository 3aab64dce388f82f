"""The services behind guardrails: a module for each kind of service, and the table of the kinds in `rows`."""
