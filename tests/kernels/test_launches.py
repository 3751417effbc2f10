"""Launches of compiled kernels, without a device."""

import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from privem.kernels import launches


class Stream:
    """Remembers what it was asked, in order."""

    def __init__(self, asked):
        self.asked = asked

    def synchronize(self):
        self.asked.append((threading.get_ident(), "ended"))


class Module:
    """A kernel whose constants are those that were last put."""

    def __init__(self, asked):
        self.asked = asked

    def get_global(self, name):
        def copy(pointer, size, stream):
            self.asked.append((threading.get_ident(), name))
            time.sleep(0.002)

        return SimpleNamespace(copy_from_device_async=copy)


def test_no_other_fit_changes_the_constants_of_a_kernel_that_runs(monkeypatch):
    """A module has them once: between copies, launch and end of a kernel nobody else may copy.

    On a device, 17 of 400 sums of two private fits in two threads were made with the other fit's
    bounds and centres.
    """
    asked = []

    @contextmanager
    def stream(X, torch):
        yield Stream(asked)

    cuda = SimpleNamespace(UnownedMemory=lambda *_: None, MemoryPointer=lambda *_: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(launches, "_stream", stream)
    X = SimpleNamespace(device=SimpleNamespace(index=0))
    values = SimpleNamespace(numel=lambda: 1, element_size=lambda: 8, data_ptr=lambda: 0)
    module, given = Module(asked), {"box": values, "table": values}

    def fits():
        for _ in range(20):
            with launches.held_constants(module, given, X, None):
                time.sleep(0.001)
                asked.append((threading.get_ident(), "launched"))

    threads = [threading.Thread(target=fits) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at in range(0, len(asked), 4):
        each = asked[at : at + 4]
        assert [what for _, what in each] == ["box", "table", "launched", "ended"]
        assert len({who for who, _ in each}) == 1
    assert len(asked) == 3 * 20 * 4
    with pytest.raises(RuntimeError), launches.held_constants(module, given, X, None):
        raise RuntimeError
    assert asked[-1][1] == "ended"
    assert not launches._LOCKS[0].locked()
