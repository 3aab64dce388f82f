"""Tools that run in the gateway between the turns of a model."""
