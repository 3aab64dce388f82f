"""The history in a file of SQLite, through the standard library alone.

Begin with `store` (edge). `statements` has what is read and written, as text under the names of the deployment, `writing` does a
write in a transaction, `writer` (edge) has the thread in which the writes of many requests share one, `readers` (edge) those that
read, `place` what a URL names, and `schema` makes the tables and brings older ones up to date.
"""
