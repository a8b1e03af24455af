"""Faults of a GPU: its memory is full, or the GPU or its driver has failed. Never a method's fault."""

import sys

# The program's own fault, for example an index that is out of range. CUDA reports it like faults of the GPU.
_OF_THE_PROGRAM = "device-side assert triggered"
# Libraries of CUDA report that memory is short, or that the GPU does not work, as plain RuntimeErrors.
_PHRASES = (
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_INTERNAL_ERROR",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDA driver error",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "No CUDA GPUs are available",
    "ncclUnhandledCudaError",
    # A convolution for which there is too little memory.
    "Unable to find a valid cuDNN algorithm",
    "was unable to find an engine to execute this computation",
)


def gpu_fault(error: BaseException) -> str | None:
    """Return the first line of an error that is a fault of a GPU; None for all other errors."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return None
    text = str(error)
    if isinstance(error, torch.AcceleratorError):
        found = _OF_THE_PROGRAM not in text
    else:
        found = isinstance(error, torch.OutOfMemoryError) or any(phrase in text for phrase in _PHRASES)
    return next(iter(text.splitlines()), type(error).__name__) if found else None
