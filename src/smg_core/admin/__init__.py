"""The admin door: a listener of its own with routes for those who run the gateway, never on the public listener.

Begin with `app`, which puts the routes together. Each other module has the routes about one thing, and `*_types` the forms of
their bodies; `bodies` and `answers` read and write them, `auditing` tells what was done.
"""
