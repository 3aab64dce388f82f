"""Performs the steps of a flow: prepares, selects a worker, streams, hedges, moves calls of lost workers."""
