"""Outside providers as engines: servers of models that others run, each in its own wire format.

engine        `ProviderEngine`: an outside provider as an engine (edge)
wire_format   `WireFormat`: what it has to know of one provider's API
proven_call   one call, sent once more where a credential was refused that can be renewed (edge)
listing       what providers list of their models

No module of this package is loaded unless a worker of such a kind is configured.
"""
