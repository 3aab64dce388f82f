"""Idempotency-Key: a request that is sent again gets the answer of the first, and is not run twice."""
