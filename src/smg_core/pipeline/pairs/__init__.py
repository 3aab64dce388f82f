"""Several engines for one request: prefill, decode, encode."""
