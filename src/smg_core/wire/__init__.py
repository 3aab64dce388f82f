"""The common part of the public APIs: decoding, errors, JSON, forms, OpenAPI. Pure; knows no API.

Begin with `base`, the roles of decoders and encoders, `decoding` and `errors`. `operation` and `openapi` describe routes; the
others are fields and forms that several APIs have.
"""
