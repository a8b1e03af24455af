"""Files of tensors, in the format of safetensors, that are written and checked piece by piece.

A large file on a slow file system takes minutes. `progress` is called after each piece has reached the disk.
So a run that waits for it is not taken for one that hangs. The format is described at
https://github.com/huggingface/safetensors#format.

Each tensor is named after its digest. So equal tensors are one, and each can be checked by itself.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from thinwire.base.digests import Damaged, reading
from thinwire.base.errors import MethodError

# At a megabyte a second, which is very slow, a piece takes 16 seconds.
_PIECE_BYTES = 2**24
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

Progress = Callable[[], None]


def digest_of(tensor: Tensor, progress: Progress) -> str:
    """The SHA-256 of the type, the shape and the bytes of a contiguous tensor on the CPU."""
    digest = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}\n".encode())
    for piece in _pieces(tensor):
        digest.update(piece)
        progress()
    return digest.hexdigest()


def write(path: Path, tensors: Mapping[str, Tensor], progress: Progress) -> None:
    """Write tensors, which are contiguous and on the CPU, under their digests, and flush them to disk.

    Raises:
        MethodError: a tensor has a type that the format does not know.
        OSError: the file cannot be written.
    """
    # A view of a type begins at a multiple of its size, so the largest come first.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    header: dict[str, object] = {}
    end = 0
    for name, tensor in ordered:
        if tensor.dtype not in _NAMES:
            raise MethodError(f"a tensor of {tensor.dtype} cannot be saved: keep another type in `memory`")
        begin, end = end, end + tensor.nbytes
        about = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        header[name] = about
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    waiting = 0  # bytes in memory of the system
    with path.open("wb", buffering=_PIECE_BYTES) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            for piece in _pieces(tensor):
                waiting += file.write(piece)
                if waiting >= _PIECE_BYTES:
                    file.flush()
                    os.fdatasync(file.fileno())
                    waiting = 0
                    progress()


def read(path: Path, digest: str, progress: Progress) -> Tensor:
    """Return the tensor with this digest, on the CPU.

    Raises:
        Damaged: the file is missing, is no file of tensors, or has no such tensor or a changed one.
        UserError: it cannot be read.
    """
    with reading(path):
        path.stat()  # what is not there is said in the words of all files
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(digest)
        except SafetensorError as error:
            raise Damaged(f"{path} holds no tensors ({error})") from None
    if digest_of(tensor, progress) != digest:
        raise Damaged(f"{path} holds another tensor than was written (its SHA-256 differs)")
    return tensor


def _pieces(tensor: Tensor) -> Iterator[memoryview]:
    content = tensor.reshape(-1).view(torch.uint8).numpy().data
    for begin in range(0, len(content), _PIECE_BYTES):
        yield content[begin : begin + _PIECE_BYTES]
