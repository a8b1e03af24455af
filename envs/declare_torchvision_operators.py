"""Lets `import torchvision` work beside a torch that was built without CUDA.

PyPI has one torchvision, which is linked against CUDA. Beside a CPU build of torch it cannot load its
operators. Then its import fails, because it describes two operators that nobody has declared: "operator
torchvision::nms does not exist". So they are declared just before, without implementations. Models,
transforms and data sets need no operators.

envs/setup.sh copies this module into the environment, with a .pth file that imports it when Python starts.
"""

import sys

_DECLARATIONS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries = []  # kept, because the declarations last as long as their library exists


class _Declare:
    """Is asked for every module that is imported, and finds none."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "torchvision._meta_registrations":  # describes the operators
            sys.meta_path.remove(cls)
            if not sys.modules["torchvision.extension"]._has_ops():
                import torch  # torchvision has imported it

                _libraries.append(torch.library.Library("torchvision", "FRAGMENT"))
                for declaration in _DECLARATIONS:
                    _libraries[0].define(declaration)


sys.meta_path.insert(0, _Declare)
