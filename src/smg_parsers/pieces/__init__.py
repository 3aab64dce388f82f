"""A parser's pieces, the grammars, and the fields of a family."""
