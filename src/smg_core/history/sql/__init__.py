"""The history in a database that speaks SQL: PostgreSQL or Oracle, through SQLAlchemy.

Begin with `store` (edge). `statements` and `writing` decide what is read and written, `group_commit` puts the writes of many
requests into one transaction, `tables` has the names and columns, and `version` and `migrate` bring older tables up to date.
`names`, `bounds`, `store_write` and `sqlite_file` need no library, and are for SQLite too.
"""
