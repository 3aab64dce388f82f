"""The list of plugins: loaded, replaced, drained; what each sees of a request.

Begin with `registry`, the plugins of one process, and `exchange`, an exchange with plugins around it. `file` is the list,
`code` loads what an entry names, `asgi_exchange` and `storage` are the other places where plugins are asked.
"""
