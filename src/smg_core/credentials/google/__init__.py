"""Google's credentials: found where Google's own libraries find them, and exchanged for tokens.

chain       where a token comes from: files, workload identity, the metadata server (edge)
documents   what a file of credentials says, and the answers with tokens
assertion   the signed claim of a service account
"""
