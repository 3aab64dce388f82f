"""Outside providers as engines: servers of models that others run, each in its own wire format.

signing   `Signer`: who makes the headers that a provider knows its customer by, and the plain API key as one

No module of this package is loaded unless a worker of such a kind is configured.
"""
