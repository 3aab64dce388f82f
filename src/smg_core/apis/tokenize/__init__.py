"""Tokenize and detokenize."""
