"""The families of models: what a row is, the table of all, and which row a model belongs to."""
