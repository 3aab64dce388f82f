"""What a model's folder says about pictures, clips and recordings, and what the keys of a processor's configuration mean.

Begin with `files`; `keys` reads a configuration by the defaults of its class, `key_kinds` says what value each key takes. Pure.
"""
