"""Kernels' sources, running them on torch's stream, and adding up what their threads found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..linalg import Array
from .tensors import Tensor


def source_of(names: Mapping[str, object], *files: str) -> str:
    """The source of a kernel: files of this folder one after another, with names defined before."""
    head = "".join(f"#define {name} {value}\n" for name, value in names.items())
    here = Path(__file__).parent
    return head + "".join((here / file).read_text("utf-8") for file in files)


def processors_of(X: Tensor, torch: Any) -> int:
    """How many multiprocessors the device has."""
    return int(torch.cuda.get_device_properties(X.device).multi_processor_count)


@dataclass(frozen=True)
class _Stream:
    """A stream of torch's, as CuPy takes it."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


@cache
def _ours(device: int, handle: int) -> Any:
    """CuPy's own object for a stream."""
    import cupy

    if hasattr(cupy.cuda.Stream, "from_external"):  # CuPy 14
        return cupy.cuda.Stream.from_external(_Stream(handle))
    return cupy.cuda.ExternalStream(handle, device)


@contextmanager
def _stream(X: Tensor, torch: Any) -> Iterator[Any]:
    import cupy

    current = torch.cuda.current_stream(X.device)
    with cupy.cuda.Device(current.device_index):
        ours = _ours(current.device_index, current.cuda_stream)
        with ours:
            yield ours


# One for each device: whose constants are in force there.
_LOCKS: dict[int, Lock] = {}


@contextmanager
def held_constants(
    module: Any, given: Mapping[str, Tensor], X: Tensor, torch: Any
) -> Iterator[None]:
    """Copy tensors to the constants of a kernel, which is launched inside.

    A module has its constants once, and modules are shared by all fits of this process. So nobody
    else puts others there until the kernel has ended: it would clip by one query's bounds what is
    released by another's.
    """
    import cupy

    with _LOCKS.setdefault(X.device.index or 0, Lock()), _stream(X, torch) as stream:
        for name, values in given.items():
            bytes_ = values.numel() * values.element_size()
            source = cupy.cuda.UnownedMemory(values.data_ptr(), bytes_, values)
            pointer = cupy.cuda.MemoryPointer(source, 0)
            module.get_global(name).copy_from_device_async(pointer, bytes_, stream)
        try:
            yield
        finally:
            stream.synchronize()


def launch(
    module: Any,
    name: str,
    grid: tuple[int, int],
    threads: int,
    X: Tensor,
    given: tuple[Any, ...],
    torch: Any,
    shared: int = 0,
) -> None:
    """Run a kernel; ``shared``: bytes of shared memory that a block asks for."""

    def raw(value: Any) -> Any:
        if isinstance(value, float):
            return np.float64(value)
        return np.int64(value) if isinstance(value, int) else np.uintp(value.data_ptr())

    with _stream(X, torch):
        function = module.get_function(name)
        if shared:
            function.max_dynamic_shared_size_bytes = shared
        function(grid, (threads,), tuple(raw(value) for value in given), shared_mem=shared)


def collected(high: Tensor, low: Tensor, torch: Any) -> Array:
    """Sums (p, threads, lanes) along the threads, with what their addition lost, by TwoSum."""
    while high.shape[1] > 1:
        half = high.shape[1] // 2
        a, b = high[:, :half], high[:, half : 2 * half]
        total = a + b
        seen = total - a
        lost = (a - (total - seen)) + (b - seen)
        rest = low[:, :half] + low[:, half : 2 * half] + lost
        high = torch.cat([total, high[:, 2 * half :]], 1)
        low = torch.cat([rest, low[:, 2 * half :]], 1)
    return np.asarray((high + low)[:, 0].cpu().numpy())
