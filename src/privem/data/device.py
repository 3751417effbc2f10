"""Rows in torch tensors and CuPy arrays: on an accelerator they are summed there.

A query whose statistics can be computed there has a function for it, registered with
:func:`on_device` in the module ``device`` beside the query's own. It computes the sum over all
rows; noise is added on the host, as always. All other queries get blocks that are copied to the
host, so every model takes these rows.

A tensor in the memory of the host is an array like others, without a copy: the NumPy kernels are
faster there. :func:`rows_on` says otherwise.

torch and CuPy are recognised, and never imported for it: whoever has such an array has done so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block
from ..kernels.tensors import Tensors, Work
from .kinds import _code, _held
from .persons import as_labels
from .sums import ArrayRows
from .table import Policy, Table, open_table
from .values import as_target, as_weights, is_on_device, refuse_non_finite

# Rows that are copied to the host, or looked at, in one go.
_CHUNK = 2**18
# Has cuBLAS compute products of doubles from pieces of other types, whose error nobody has proved.
_EMULATION = "CUBLAS_EMULATE_DOUBLE_PRECISION"


@singledispatch
def on_device(query: Any, rows: DeviceRows) -> Any:
    """The sum of a query over all rows, computed where they are; ``None`` if it cannot be."""
    return None


@cache
def _learn(package: str) -> None:
    """Import what the queries of a package of ours have registered."""
    name = f"{package}.device"
    if package.startswith("privem.") and importlib.util.find_spec(name) is not None:
        importlib.import_module(name)


@dataclass(frozen=True)
class DeviceRows:
    """Rows of a torch tensor.

    Parameters
    ----------
    X : torch.Tensor
        Of shape (n, d).
    device : torch.device
        Where sums are computed. Rows that lie elsewhere are copied there block by block.
    weight : array of shape (n,), optional
    groups, target, names, declared
        As of :class:`privem.data.ArrayRows`.
    """

    X: Any = field(repr=False)
    device: Any
    weight: NDArray[np.float64] | None = field(default=None, repr=False)
    names: Sequence[str] | None = None
    groups: Any = field(default=None, repr=False)
    target: NDArray[np.float64] | None = field(default=None, repr=False)
    declared: Sequence[str] | None = None
    _works: dict[Any, Work] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_features(self) -> int:
        """How many columns, the target included."""
        return int(self.X.shape[1]) + (self.target is not None)

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    @property
    def types(self) -> list[str]:
        """The type of each column of ``X``."""
        if self.declared is not None:
            return list(self.declared)
        return [str(self.X.dtype).rpartition(".")[2]] * int(self.X.shape[1])

    def owners(self) -> Any:
        """Whom each row belongs to, or ``None``."""
        return self.groups

    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each row, or ``None``."""
        return self.weight

    def take(self, index: NDArray[np.int64]) -> ArrayRows:
        """Some of the rows, unweighted, on the host."""
        torch = sys.modules["torch"]
        picked = self.X[torch.as_tensor(index, device=self.X.device)]
        target = None if self.target is None else self.target[index]
        return ArrayRows(_array(picked), None, self.names, target=target, declared=self.declared)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time, copied to the host."""
        many = max(1, _CHUNK // rows) * rows
        for start in range(0, self.count, many):
            where = slice(start, start + many)
            weight = None if self.weight is None else self.weight[where]
            target = None if self.target is None else self.target[where]
            held = ArrayRows(_array(self.X[where]), weight, target=target)
            for block in held.blocks(rows):
                yield replace(block, start=start + block.start)

    def missing(self, target: bool) -> tuple[bool, bool, bool]:
        """Whether a feature, the target and a weight is missing."""
        torch = sys.modules["torch"]
        chunks = self.X.split(_CHUNK) if self.X.dtype.is_floating_point else ()
        x = any(bool(torch.isnan(chunk).any()) for chunk in chunks)
        others = (None if v is None else np.isnan(v).any() for v in (self.target, self.weight))
        y, weight = (bool(v) for v in others)
        return x, y and target, weight

    def refuse_non_finite(self) -> None:
        """Raise for NaN and infinities, naming the row and the column."""
        torch = sys.modules["torch"]
        for number, chunk in enumerate(self.X.split(_CHUNK)):
            if not bool(torch.isfinite(chunk).all()):
                refuse_non_finite(_array(chunk), number * _CHUNK, self.names)

    def summed(self, query: Any) -> Any:
        """The sum of a query over all rows; ``None`` if blocks are to be copied and summed."""
        if self.target is not None or not self._computes:
            return None
        _learn(type(query).__module__.rpartition(".")[0])
        with _alone(self.device), _full_precision(self.device):
            return on_device(query, self)

    @property
    def _computes(self) -> bool:
        """Whether the device is of a kind whose arithmetic the proofs know."""
        torch: Any = sys.modules["torch"]
        if self.device.type == "cuda":  # the variable may have been set since the rows were opened
            return not (torch.version.hip or _emulated())
        return bool(self.device.type == "cpu")

    def records(self, single: bool = False) -> Tensors:
        """The rows as kernels take them, computed with in float64.

        ``single``: or in float32, if that is what the rows are. Never for noisy sums.
        """
        torch: Any = sys.modules["torch"]
        short = (torch.float32, torch.float16, torch.bfloat16)
        dtype = torch.float32 if single and self.X.dtype in short else torch.float64
        work = self._works.setdefault(dtype, Work(self.device, dtype))
        return Tensors(self.X.detach(), self._weight, work, self.X.device != self.device)

    @cached_property
    def _weight(self) -> Any:
        torch: Any = sys.modules["torch"]
        if self.weight is None:
            return None
        return torch.as_tensor(self.weight, dtype=torch.float64, device=self.device)


def rows_on(X: Any, device: Any = "cuda", weight: Any = None, groups: Any = None) -> DeviceRows:
    """Rows to be summed on a device, wherever they lie: for more of them than it can hold.

    Blocks are copied there while others are worked on. Pass the result to ``fit``.

    Parameters
    ----------
    X : torch.Tensor or array of shape (n, d)
        A memory-mapped array will do.
    device : str or torch.device
    weight, groups : array-like, optional
        As ``sample_weight`` and ``groups`` of ``fit``.

    Examples
    --------
    >>> rows = rows_on(np.zeros((1000, 2)), "cpu")  # or "cuda"
    >>> rows.count, rows.n_features
    (1000, 2)
    """
    torch = _torch()
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            "rows_on takes a tensor or an array, not a path: np.load(path, mmap_mode='r') opens a "
            ".npy file as one, and fit takes a path itself"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a file may not be written to: it is only read
        tensor = _table(X if isinstance(X, torch.Tensor) else torch.from_numpy(np.asarray(X)))
    there = torch.device(device)
    if there.type == "cuda" and there.index is None:
        there = torch.device("cuda", torch.cuda.current_device())
    if tensor.device.type not in ("cpu", there.type):
        raise ValueError(f"X lies on {tensor.device}, and is summed there or, X.cpu(), on the host")
    n = len(tensor)
    weight = as_weights(_on_host(weight), n, False)
    groups = None if groups is None else as_labels(_on_host(groups), n)
    return DeviceRows(tensor, there, weight, groups=groups)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError(
            "rows on an accelerator are summed with torch: pip install 'privem[torch]'"
        ) from None
    return torch


def open_device(X: Any, y: Any, weight: Any, groups: Any, policy: Policy) -> Table:
    """Rows of a tensor as a table."""
    y, weight, groups = _on_host(y), _on_host(weight), _on_host(groups)
    if isinstance(X, DeviceRows):
        rows = X
        if weight is not None or (groups is not None and rows.groups is not None):
            raise TypeError("give weight and groups once, when the rows are opened")
        weight, groups = rows.weight, rows.groups if groups is None else groups
    else:
        tensor = X if hasattr(X, "is_floating_point") else _torch().from_dlpack(X)
        if tensor.device.type == "cpu":
            return open_table(_host_array(tensor), y, weight, groups, policy)
        rows = DeviceRows(_table(tensor), tensor.device)
    if policy.schema is not None:
        # A mixed table is made into cells by the host.
        return open_table(_array(rows.X), y, weight, groups, policy)
    if policy.header is not None:
        raise TypeError("header= is for files: these rows were read before")
    _refuse_emulation(rows, policy)
    n = rows.count
    groups = None if groups is None else as_labels(groups, n)
    weight = as_weights(weight, n, policy.finite)
    if policy.coded:
        return _there(_code(_array(rows.X), weight, groups, policy), rows.device)
    rows = replace(rows, weight=weight, groups=groups)
    if policy.finite:
        rows.refuse_non_finite()
    if policy.target:
        target = as_target(y)
        if len(target) != n:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: [{n}, {len(target)}]"
            )
        if policy.exact and not np.isfinite(target).all():
            raise ValueError("Input y contains NaN or infinity; remove or impute such rows first")
        rows = replace(rows, target=target)
    return _held(rows, policy, None)


def _there(table: Table, device: Any) -> Table:
    """The table with its codes on a device."""
    torch = _torch()

    def sent(rows: Any) -> DeviceRows:
        codes = torch.as_tensor(rows.X, device=device)
        return DeviceRows(codes, device, rows.weight, rows.names, rows.groups, None, rows.declared)

    if table.elsewhere is not None:
        return table
    owned = table.owned
    if owned is not None:
        owned = replace(owned, rows=sent(owned.rows))
    return replace(table, rows=sent(table.rows), owned=owned)


def _table(tensor: Any) -> Any:
    """A tensor of numbers; raises for what is no table of real ones."""
    if tensor.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {tensor.ndim}D tensor instead; its shape must be (rows, "
            "columns)"
        )
    _refuse_sparse(tensor)
    if tensor.is_complex() or getattr(tensor, "is_quantized", False):
        raise ValueError(f"a tensor of {tensor.dtype} was given; numbers must be real")
    for size, what in zip(tensor.shape, ("sample", "feature"), strict=True):
        if not size:
            raise ValueError(f"Found array with 0 {what}(s): the tensor is empty")
    # Yes and no are one and zero: torch subtracts nothing from them.
    return tensor.to(sys.modules["torch"].uint8) if str(tensor.dtype) == "torch.bool" else tensor


def _refuse_sparse(tensor: Any) -> None:
    if str(tensor.layout) != "torch.strided":
        raise TypeError("a sparse tensor was given; privem takes dense ones: X.to_dense()")


def _emulated() -> bool:
    return os.environ.get(_EMULATION, "0") != "0"


def _refuse_emulation(rows: DeviceRows, policy: Policy) -> None:
    if policy.private and rows.device.type == "cuda" and _emulated():
        raise ValueError(
            f"{_EMULATION} is set: products of doubles would be emulated, and no error bound is "
            "known for that. A private fit needs one; unset the variable"
        )


# One for each device; whoever has it may take it again.
_IN_USE: dict[tuple[str, int | None], threading.RLock] = {}


def _alone(device: Any) -> threading.RLock:
    """What a thread holds while it sums on a device.

    Working memory belongs to the rows, and other threads may fit the same rows: with both in it, a
    query would add up what another one has put there, which no bound of its own covers.
    """
    return _IN_USE.setdefault((device.type, device.index), threading.RLock())


# What the caller has set, once for each thread that sums.
_before: list[Any] = []
_setting = threading.Lock()


@contextmanager
def _full_precision(device: Any) -> Iterator[None]:
    """No gradients, no lower precision, whatever the caller has set; on the device of the rows.

    The setting belongs to the process: it is given back when no thread needs it any more.
    """
    torch: Any = sys.modules["torch"]
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
        options = torch.backends.cuda.matmul
        name = "fp32_precision" if hasattr(options, "fp32_precision") else "allow_tf32"
        with _setting:
            _before.append(_before[0] if _before else getattr(options, name))
            setattr(options, name, "ieee" if name == "fp32_precision" else False)
        try:
            yield
        finally:
            with _setting:
                given = _before.pop()
                if not _before:
                    setattr(options, name, given)


def _on_host(values: Any) -> Any:
    """What comes with the rows, as an array: weights, groups and targets are checked there."""
    return _array(values) if is_on_device(values) else values


def _array(values: Any) -> NDArray[Any]:
    """A tensor, or an array of CuPy, as an array of this machine; float16 and its like as float32.

    Without a copy where that is possible.
    """
    if not hasattr(values, "is_floating_point"):
        return np.asarray(values.get())
    return _host_array(values.detach().cpu())


def _host_array(tensor: Any) -> NDArray[Any]:
    """A tensor of this machine as an array."""
    _refuse_sparse(tensor)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_floating_point() and tensor.element_size() < 4:
        tensor = tensor.float()
    return np.asarray(tensor.numpy())
