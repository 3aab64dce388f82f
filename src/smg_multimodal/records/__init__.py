"""The records of all packages of smg_multimodal: processed items and their tensors, errors, and how far walks over files may go.

Begin with `types`. Pure.
"""
