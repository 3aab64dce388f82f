"""The models that are served: tokenizer, template, parser and media of each.

Begin with `loading` and `onboarding`, by which a worker's model becomes one that is served. `media_service` and
`document_loading` bring what requests name; `policies` makes the routing policies of the settings.
"""
