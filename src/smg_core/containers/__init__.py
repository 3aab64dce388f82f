"""Containers in which models run code, and their routes.

Begin with `kept`, the containers of tenants; `interpreter` runs code for one of them.
"""
