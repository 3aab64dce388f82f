"""What a parser returns, what a grammar is, and what a field of a family may be."""
