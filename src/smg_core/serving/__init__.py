"""One request to a model, for every API: admission, decoding, time-outs, the answer, and how it ended."""
