"""A tenant's usage, from the ledger

Begin with `routes` (edge), the row; `asking` (edge) reads the question and has the ledger answer it, here and at the admin door.
"""
