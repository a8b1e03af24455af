"""A GPU that fails ends a run without a result, and the next attempt continues."""

import pytest
import torch
import torch.distributed as dist

from tests.unit.test_resource_shortage import raised_in
from thinwire.base.errors import ResourceError, shortage, trouble
from thinwire.train.blame import blame
from thinwire.transport.rendezvous import ConnectionLost, translated_errors

# What torch appends to each error of CUDA.
HINT = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
FAULTS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError(f"CUDA error: uncorrectable ECC error encountered{HINT}"),
    torch.AcceleratorError(f"CUDA error: unspecified launch failure{HINT}"),
    torch.AcceleratorError(""),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle, ...)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    RuntimeError("GET was unable to find an engine to execute this computation"),
    RuntimeError("FIND was unable to find an engine to execute this computation"),
    RuntimeError("Unable to find a valid cuDNN algorithm to run convolution"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("No CUDA GPUs are available"),
    dist.DistBackendError("NCCL error in: NCCLUtils.cpp:77\nncclUnhandledCudaError: Call to CUDA failed."),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_of_a_gpu_is_trouble_and_neither_the_methods_result_nor_a_lost_connection(fault):
    """Otherwise the run is published as failed after three attempts."""

    def compute():
        raise fault

    error = raised_in("methods", "compute()", compute=compute)
    assert blame(error) is None
    assert trouble(error).startswith("a GPU cannot be used any more (")
    assert "\n" not in trouble(error)
    with pytest.raises(ResourceError, match="a GPU cannot be used"), translated_errors():
        raise fault


def test_an_index_out_of_range_on_a_gpu_is_the_methods_fault():
    fault = torch.AcceleratorError(f"CUDA error: device-side assert triggered{HINT}")
    assert blame(raised_in("methods", "raise fault", fault=fault)) is not None
    assert shortage(fault) is None


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"),
        dist.DistBackendError("NCCL error in: NCCLUtils.cpp:77\nncclRemoteError: a peer has exited"),
        dist.DistNetworkError("the store of the run is gone"),
    ],
)
def test_errors_of_connections_mean_that_another_process_is_lost(error):
    with pytest.raises(ConnectionLost), translated_errors():
        raise error


def test_other_errors_of_a_call_stay_as_they_are():
    """A tensor of a wrong shape or on a wrong device does not mean that a process is lost."""
    error = RuntimeError("Expected all tensors to be on the same device, but found two: cuda:0 and cpu")
    with pytest.raises(RuntimeError) as raised, translated_errors():
        raise error
    assert raised.value is error
