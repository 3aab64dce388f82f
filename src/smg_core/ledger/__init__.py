"""Accounts of requests, tokens and money by tenant, key, user and model.

Begin with `accounts`, what is counted for whom, and `keeping` (edge), which gathers sums and writes them. `queries` says what
can be asked, `statements` how that is said in SQL, `sqlite` and `postgres` (edges) are the stores, `opening` (edge) finds the one
that a URL names.
"""
