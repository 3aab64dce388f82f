"""A model's settings for pictures, clips and recordings, from the files of its folder.

Begin with `files`; `keys` reads a configuration by the defaults of its class, `key_kinds` says what value each key takes. Pure.
"""
