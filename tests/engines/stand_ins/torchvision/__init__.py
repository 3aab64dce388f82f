"""Empty, in place of torchvision: see stand_in."""

from stand_in import anything as __getattr__
from stand_in import stand_in

__all__ = ["__getattr__", "__version__"]
__version__ = "0.0.0+stand.in"
stand_in("torchvision")
