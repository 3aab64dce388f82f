"""Lets an engine import torchvision beside torch's build for CPUs. Python reads it where PYTHONPATH has this folder.

vLLM asks transformers for a model's processor when it starts, which imports torchvision, though the gateway brings the tensors.
torchvision's usual build lacks its compiled part beside that build of torch, and stops at "operator torchvision::nms does not
exist". Both operators are declared before it is imported; nothing here calls them.
"""

import importlib.abc
import sys
from typing import Any


class Declare(importlib.abc.MetaPathFinder):
    """Declares the operators when torchvision is first looked for, and finds no module itself."""

    library: Any = None  # the declarations live as long as it does

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        del path, target
        if fullname != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        self.library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            self.library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


declare = Declare()
sys.meta_path.insert(0, declare)
