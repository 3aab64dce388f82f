"""The models that are served: loaded from an engine or a folder, with tokenizer, template, parser and media."""
