"""Import torchvision, also beside a torch that was built without CUDA.

The published torchvision is linked against CUDA. Beside a CPU build of torch its operators do not load, and
its import fails because two of them are not declared. So this module declares them first, without
implementations. Then the import succeeds. Architectures and transforms need no operators.
"""

import sys
from types import ModuleType

import torch

_DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library: torch.library.Library | None = None  # kept, because the declarations last as long as it exists


def models() -> ModuleType:
    """Return `torchvision.models`."""
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
