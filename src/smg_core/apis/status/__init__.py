"""The models list, health, and the page at `/`.

Begin with `routes` (edge), the row; `front_page` is the page, `provider_lists` (edge) has what outside providers list.
"""
