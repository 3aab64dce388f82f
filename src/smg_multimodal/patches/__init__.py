"""Families whose pictures keep their shape and become patches: a module for each processor, and those that are like it.

Begin with `qwen`, which many others follow. `families.patch_pipelines` says which processor class each is for. Pure.
"""
