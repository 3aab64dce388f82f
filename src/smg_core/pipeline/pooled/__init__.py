"""Pooled work: embeddings, scores, classes; no flow, no stream."""
