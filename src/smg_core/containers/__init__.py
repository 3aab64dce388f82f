"""Containers in which models run code: their folders, their interpreters, the routes to their files.

Begin with `kept`, the containers of tenants; `interpreter` runs code for one of them.
"""
