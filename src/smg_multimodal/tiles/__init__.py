"""Families whose pictures become squares or tiles of one size: a module for each processor, and those that are like it.

`families.tile_pipelines` and `families.document_pipelines` say which processor class each is for. Pure.
"""
