"""Pooled work: embeddings, scores, classes; no flow, no stream.

Begin with `pooling`. `inputs` and `pair_inputs` make ids, `gathering` has calls made until every input has its result, `spread`
decides which is next, `scoring` and `next_token` judge pairs.
"""
