"""A file in memory that processes of one host map. It has no name, so nothing is left when they end."""

import mmap
import os

import torch
from torch import Tensor

from thinwire.errors import ResourceError

# Segments grow in steps of this many bytes.
_STEP = 2**20


class Segment:
    """A file in memory, mapped, which can grow."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._bytes = torch.empty(0, dtype=torch.uint8)

    @classmethod
    def new(cls) -> "Segment":
        """Return an empty segment of this process. Others open it through /proc.

        Raises:
            ResourceError: there is not enough memory, or too many files are open.
        """
        try:
            return cls(os.memfd_create("thinwire"))
        except OSError as error:
            raise no_shared_memory(error) from None

    def reserve(self, size: int) -> None:
        """Grow to at least `size` bytes.

        Raises:
            ResourceError: there is not enough memory.
        """
        # Allocated now, because a page that is missing at its first use would kill the process.
        if size > os.fstat(self.file).st_size:
            try:
                os.posix_fallocate(self.file, 0, size + -size % _STEP)
            except OSError as error:
                raise ResourceError(
                    f"{size / 1e6:.0f} MB of shared memory cannot be had ({error.strerror}): free memory, or "
                    "raise the limit of this job"
                ) from None

    def view(self, dtype: torch.dtype, count: int, start: int = 0) -> Tensor:
        """Return `count` numbers of a type, from the byte `start` on."""
        end = start + count * dtype.itemsize
        if end > len(self._bytes):
            mapped = mmap.mmap(self.file, os.fstat(self.file).st_size)
            self._bytes = torch.frombuffer(mapped, dtype=torch.uint8)
        return self._bytes[start:end].view(dtype)

    def close(self) -> None:
        os.close(self.file)


def no_shared_memory(error: OSError) -> ResourceError:
    """What to raise where the system gives no memory or no pipe."""
    return ResourceError(f"no memory can be shared by the workers of this node ({error.strerror})")
