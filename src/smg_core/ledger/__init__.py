"""The ledger: accounts of how many requests, tokens and how much money each tenant, key, user and model took, by the hour

Begin with `accounts`, what is counted for whom, and `keeping` (edge), which gathers sums and writes them. `queries` says what
can be asked, `statements` how that is said in SQL, `sqlite` and `postgres` (edges) are the stores, `opening` (edge) finds the one
that a URL names.
"""
