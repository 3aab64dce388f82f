"""The ASGI app over all routes, and clients that call it in process.

Begin with `app`. `public_routes` is the table of all that the APIs bring, `inprocess` makes clients of the app in the same
process, and `openapi_routes` and `docs_page` describe it.
"""
