"""Finds the caller of a request: keys, virtual keys, certificates. Above: the app. Below: auth."""
