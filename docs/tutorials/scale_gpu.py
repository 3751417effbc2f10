"""A private mixture of 100 million made-up records on a GPU.

Run it with "python docs/tutorials/scale_gpu.py". It needs privem[torch] and, for its compiled
kernels, CuPy. Without a CUDA device it takes 100,000 records, on the processor. Records are in
float64, as private fits compute.
"""

import importlib.util
import time

import numpy as np
import torch

from privem import GaussianMixture

COLUMNS, GROUPS = 10, 10
cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
rows = 100_000_000 if cuda else 100_000


def now() -> float:
    """The time, once the device has done all that it was asked for."""
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def make_records(centres: torch.Tensor) -> torch.Tensor:
    """Records around the centres, made block by block where they are to stay."""
    random = torch.Generator(device).manual_seed(0)
    records = torch.empty(rows, COLUMNS, dtype=torch.float64, device=device)
    for block in records.split(5_000_000):
        torch.randn(block.shape, generator=random, out=block)
        group = torch.randint(GROUPS, (len(block),), generator=random, device=device)
        block += centres[group]
    return records


def fit(records: torch.Tensor) -> tuple[GaussianMixture, float]:
    """A private mixture, and the seconds that it took."""
    start = now()
    model = GaussianMixture(GROUPS, bounds=(-12, 12), epsilon=1.0, random_state=0).fit(records)
    return model, now() - start


name = torch.cuda.get_device_name() if cuda else "no CUDA device: the processor"
cupy = "with CuPy" if importlib.util.find_spec("cupy") else "without CuPy"
print(f"{name}; torch {torch.__version__}, {cupy}")

truth = np.random.default_rng(0).uniform(-8, 8, size=(GROUPS, COLUMNS))
start = now()
records = make_records(torch.as_tensor(truth, device=device))
size = records.element_size() * records.nelement() / 1e9
print(f"{rows:,} records of {COLUMNS} columns, {size:.3g} GB: made in {now() - start:.1f} s")

model, first = fit(records)
print(f"first private fit, K = {GROUPS}, epsilon 1: {first:.1f} s ({model.n_iter_} iterations)")
again, second = fit(records)
print(f"second one, with nothing left to compile: {second:.1f} s")
if cuda:
    print(f"most memory of the device: {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")

distance = np.linalg.norm(truth[:, None] - model.means_, axis=2).min(axis=1)
print(f"from each centre to the nearest mean: {distance.max():.4f} deviations at most")
print(f"weights {np.sort(model.weights_).round(3)}, structure {model.structure_!r}")
