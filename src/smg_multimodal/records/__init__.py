"""What every package of smg_multimodal speaks of: processed items and their tensors, errors, and how far walks over files may go.

Begin with `types`. Pure.
"""
