"""The admin door: routes for operators, on a listener of their own.

Begin with `app`, which puts the routes together. Each other module has the routes about one thing, and `*_types` the forms of
their bodies; `bodies` and `answers` read and write them, `auditing` tells what was done.
"""
