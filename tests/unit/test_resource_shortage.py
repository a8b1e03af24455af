"""Which failures are the method's, and which the machine's."""

import errno
import os
import resource
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest
import torch
import torch.distributed as dist

from thinwire.base.errors import CannotWrite, ResourceError, UserError, shortage, trouble
from thinwire.plugins import ROOT
from thinwire.train.cell_task import blame
from thinwire.transport.rendezvous import ConnectionLost, translated_errors


def raised_in(folder, code, **names):
    """The error of code that claims to be a file in this folder of the project; nothing is written there."""
    path = ROOT / folder / "raises.py"
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whatever it is
        exec(compile(code, str(path), "exec"), names)
    return raised.value


def full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# An engine that looks for a file: a function whose file is the engine's.
ENGINE = {}
exec(compile("def engine(): open('/nonexistent/file')", str(ROOT / "thinwire/engine.py"), "exec"), ENGINE)


@pytest.mark.parametrize(
    ("code", "blamed"),
    [
        ("raise RuntimeError('out of luck')", "RuntimeError: out of luck (methods/raises.py, line 1)"),
        ("raise SystemExit(1)", "SystemExit: 1 (methods/raises.py, line 1)"),
        ("raise GeneratorExit", "GeneratorExit:  (methods/raises.py, line 1)"),
        ("open('/nonexistent/file')", "FileNotFoundError: .* (methods/raises.py, line 1)"),
        ("import thinwire\nraise thinwire.UserError('no')", "UserError: no (methods/raises.py, line 2)"),
        ("engine()", None),
        ("full()", None),
        ("try:\n    full()\nexcept OSError:\n    raise ValueError('mine')", None),
        ("raise MemoryError", None),
        ("import torch\ntorch.empty(2**50)", None),
        ("try:\n    allocate()\nexcept RuntimeError as error:\n    raise error", None),
        ("try:\n    allocate()\nexcept RuntimeError as error:\n    raise ValueError('mine')", None),
        (
            "raise RuntimeError('No space left on device 3 for the bucket')",
            "RuntimeError: No space left on device 3 for the bucket (methods/raises.py, line 1)",
        ),
        (
            "raise RuntimeError('CUBLAS_STATUS_ALLOC_FAILED, says my codec')",
            "RuntimeError: CUBLAS_STATUS_ALLOC_FAILED, says my codec (methods/raises.py, line 1)",
        ),
    ],
)
def test_the_party_at_fault_is_found(code, blamed):
    names = {"full": full, "engine": ENGINE["engine"], "allocate": lambda: torch.empty(2**50)}
    error = raised_in("methods", code, **names)
    reason = blame(error)
    if blamed is None:
        assert reason is None
        assert trouble(error)
    else:
        assert reason is not None
        parts = blamed.split(".*")
        assert reason.startswith(parts[0])
        assert reason.endswith(parts[-1])


@pytest.mark.parametrize(
    "code", ["raise SystemExit(1)", "raise KeyboardInterrupt", "raise OSError(2, 'gone')"]
)
def test_without_a_plug_in_a_failure_does_not_end_the_run(code):
    assert blame(raised_in("tests", code)) is None


MUTE = "class Mute(Exception):\n    def __str__(self):\n        return self.words\n\n\nraise Mute"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (r"raise ValueError('a \ud800 b')", r"ValueError: a \ud800 b"),
        ("raise ValueError('a' * 10**7)", f"ValueError: {'a' * 1000} ... {'a' * 1000}"),
        (MUTE, "Mute: its message cannot be read (AttributeError)"),
    ],
)
def test_every_message_of_a_plug_in_can_be_published(code, message):
    reason = blame(raised_in("methods", code))
    assert reason == f"{message} (methods/raises.py, line {code.count(chr(10)) + 1})"
    assert reason.encode()


def test_what_torch_says_without_a_plug_in_is_the_runs_own_failure():
    """The backward pass has no frame of the model that it belongs to."""
    assert blame(raised_in("tests", "raise RuntimeError('modified in place')")) == (
        "RuntimeError: modified in place"
    )


SHORTAGES = [
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 bytes"),
    RuntimeError("can't start new thread"),
    RuntimeError("[gloo/transport/tcp/pair.cc:84] socket: Too many open files"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    CannotWrite("full"),
    BrokenProcessPool("a process in the process pool was terminated abruptly"),
]
OTHERS = [RuntimeError("Connection closed by peer"), ValueError("Too many open files"), UserError("no")]


@pytest.mark.parametrize("error", [*SHORTAGES, *OTHERS])
def test_a_shortage_is_recognised_in_all_its_messages_and_nothing_else_is_one(error):
    assert (shortage(error) is not None) == (error in SHORTAGES)


def test_torch_without_memory_is_a_shortage():
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))

    code = (
        "import torch\nfrom thinwire.base.errors import shortage\n"
        "try:\n    torch.empty(2**32)\nexcept RuntimeError as error:\n    print(shortage(error))"
    )
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert "the machine has run short of something (can't allocate memory)" in answer.stdout, answer.stderr
    assert torch.empty(1).numel() == 1


OUTPUT = "from thinwire.cli.main import ignore_lost_output\nimport os, sys\nignore_lost_output()\n"


@pytest.mark.parametrize(
    ("code", "redirection"),
    [
        ("for _ in range(10**5): print('x' * 100)", "| head -1"),
        ("print('x', flush=True)", "> /dev/full"),
        ("print('x')", ">&- 2>&-"),
        ("sys.stdout.close(); print('x', flush=True)", ""),
        ("os.close(1); print('x', flush=True)", ""),
        ("os.close(2); print('x', file=sys.stderr)", "> /dev/full"),
    ],
)
def test_broken_output_never_changes_the_exit_code(code, redirection):
    script = f'{sys.executable} -c "$CODE" {redirection}; exit ${{PIPESTATUS[0]}}'
    answer = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={**os.environ, "CODE": f"{OUTPUT}{code}\nprint('end', file=sys.stderr)"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "Error" not in answer.stderr


def test_a_file_that_is_opened_later_is_not_taken_for_stdout(tmp_path):
    code = f"{OUTPUT}file = open({str(tmp_path / 'file')!r}, 'w')\nprint('x', flush=True)\nfile.close()"
    subprocess.run(["bash", "-c", f'{sys.executable} -c "$CODE" >&-'], cwd=ROOT,
                   env={**os.environ, "CODE": code}, check=True)  # fmt: skip
    assert (tmp_path / "file").read_text() == ""


# What torch appends to each error of CUDA.
HINT = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call.\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
FAULTS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError(f"CUDA error: uncorrectable ECC error encountered{HINT}"),
    torch.AcceleratorError(""),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle, ...)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
    RuntimeError("GET was unable to find an engine to execute this computation"),
    RuntimeError("Unable to find a valid cuDNN algorithm to run convolution"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("No CUDA GPUs are available"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA unknown error - this may be due to an incorrectly set up environment, e.g. ..."),
    RuntimeError("CUDA driver initialization failed, you might not have a CUDA gpu."),
    RuntimeError("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU ..."),
    RuntimeError("Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before ..."),
    RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1131'),
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


def test_full_memory_of_a_gpu_is_told_with_what_was_asked_for_and_without_advice():
    said = (
        "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which "
        "4.37 GiB is free"
    )
    more = "Process 593 has 74.18 GiB memory in use. If reserved but unallocated memory is large try X."
    assert trouble(torch.OutOfMemoryError(f"{said}. {more}")) == (
        f"a GPU cannot be used any more ({said}): see nvidia-smi, free its memory or take another, and start "
        "again; a run goes on from its last checkpoint"
    )


@pytest.mark.parametrize(
    "fault",
    [
        torch.AcceleratorError(f"CUDA error: device-side assert triggered{HINT}"),
        RuntimeError("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm(handle, ...)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM"),
    ],
    ids=str,
)
def test_an_index_out_of_range_or_a_wrong_argument_on_a_gpu_is_the_methods_fault(fault):
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
