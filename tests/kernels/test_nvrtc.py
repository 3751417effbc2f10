"""CUDA's own compiler takes the kernels, for the cards that they are for. It needs no card.

It is in the package ``nvidia-cuda-nvrtc-cu12``, which ``.ci/run`` installs beside torch.
"""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from privem.kernels.cuda import Shape
from privem.kernels.cuda_clusters import Clusters
from privem.kernels.cuda_differences import Differences
from privem.kernels.cuda_products import plan


def library() -> Path | None:
    found = find_spec("nvidia")
    folders = [] if found is None else list(found.submodule_search_locations or [])
    files = [file for folder in folders for file in Path(folder).glob("**/libnvrtc.so.*")]
    return min(files, key=lambda file: len(file.name), default=None)


pytestmark = pytest.mark.skipif(library() is None, reason="nvidia-cuda-nvrtc-cu12 is not installed")


@cache
def nvrtc() -> ctypes.CDLL:
    return ctypes.CDLL(str(library()))


def complaints(source: str) -> str:
    """What the compiler says of a source that it does not take; nothing, if it does."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc().nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = (ctypes.c_char_p * 2)(b"-std=c++17", b"--gpu-architecture=sm_90")
    if nvrtc().nvrtcCompileProgram(program, len(options), options) == 0:
        return ""
    nvrtc().nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc().nvrtcGetProgramLog(program, log)
    return log.value.decode() or "it failed without a word"


SHAPES = [
    Shape("square", 10, 3, False, True, True),
    Shape("norm", 4, 3, False, False, False),
    Shape("full", 7, 3, False, False, False, True),
    Shape("linear", 10, 10, True, False, False),
    Clusters(10, 10, False, True),
    Clusters(5, 3, True, False),
    Differences("full", 10, 10, False, "shares"),
    Differences("full", 10, 10, False, "moments"),
    Differences("square", 5, 3, True, "moments"),
    Differences("norm", 6, 3, False, "density", True),
    *plan(10, 10, True),
    *plan(10, 10, False),
    *plan(50, 10, False),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_compile(shape) -> None:
    assert complaints(shape.source()) == ""


def test_what_is_no_kernel_does_not() -> None:
    assert "expected" in complaints(Clusters(5, 3, True, False).source() + "\nvoid go( {")
