"""What the public APIs have alike on the wire: decoding, errors, JSON, multipart, OpenAPI. Pure; knows no API."""
