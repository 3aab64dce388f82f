"""Idempotency-Key: a request that is sent again gets the first answer."""
