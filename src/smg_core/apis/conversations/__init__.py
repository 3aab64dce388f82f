"""OpenAI Conversations: the items that are stored, and their routes.

Begin with `routes`, the row; `types` has the bodies.
"""
