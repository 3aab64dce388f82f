"""Plugins around exchanges: the list that is loaded, replaced and drained, and what each sees of a request."""
