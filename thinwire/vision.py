"""torchvision, importable beside a torch that was built without CUDA.

The published torchvision is linked against CUDA. Beside a CPU build of torch its operators do not load,
and its import stops at the declaration of two of them. Declared first, without an implementation, they
let the rest of the library load: architectures and transforms need no operator.
"""

import sys
from types import ModuleType

import torch

_DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library: torch.library.Library | None = None  # the declarations live as long as this does


def models() -> ModuleType:
    """`torchvision.models`."""
    global _library
    try:
        import torchvision.models
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for declaration in _DECLARATIONS:
            _library.define(declaration)
        import torchvision.models
    return torchvision.models
