"""What the public APIs have alike on the wire: decoding, errors, JSON, multipart, OpenAPI. Pure; knows no API.

Begin with `base`, the roles of decoders and encoders, `decoding` and `errors`. `operation` and `openapi` describe routes; the
others are fields and forms that several APIs have.
"""
