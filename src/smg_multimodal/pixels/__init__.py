"""Eight-bit pixels resized as by Pillow and torchvision, and written as an encoder's floats.

Begin with `resample` and `transforms`. `filters` has the weights, `passes` and `layouts` the loops, `kernel` and `kernel_text`
their WebAssembly; `rgbx` is a picture in an array of ours, and `collate` makes one tensor of several. Pure.
"""
