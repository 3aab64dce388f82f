"""The family of a model, and the processing of its media: a table, a row for each family.

Begin with `registry` and `media_family`, what a row says. `pipelines` goes from the name of a processor class to what does the
same here; `modalities` has clips and recordings, by family in the other modules. Pure.
"""
