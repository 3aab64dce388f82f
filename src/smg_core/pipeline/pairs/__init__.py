"""Several engines for one request: prefill, decode, encode.

Begin with `pairing`. `legs` makes one call of several, `encoding` asks encode workers for embeddings of media.
"""
