"""Eight-bit pixels resized as Pillow and torchvision do, and written as normalised floats where an encoder expects them.

Begin with `resample` and `transforms`. `filters` has the weights, `passes` and `layouts` the loops, `kernel` and `kernel_text`
their WebAssembly; `rgbx` is a picture in an array of ours, and `collate` makes one tensor of several. Pure.
"""
