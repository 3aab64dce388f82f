"""TLS of the gateway's listeners: which certificate new connections are shown, and when its files are read again.

Begin with `contexts` (edge); `settings` says where the files are.
"""
