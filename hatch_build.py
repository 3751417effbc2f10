"""Compiles the inner loop of k-means, where there is a C compiler; else privem does without.

The library needs no headers of Python and is called by ctypes. So one wheel per platform serves
every Python, and a machine with a compiler but without Python's headers can build it.

``PRIVEM_COMPILED=1`` makes a failure an error, ``PRIVEM_COMPILED=0`` does not try. ``CC`` names the
compiler. Flags from outside are not used, and nearest.c refuses those in ``CC`` that proofs cannot
bear. The library says of which sources it was made, so that no older one is used.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("privem/kernels/c")
LIBRARY = "nearest.dylib" if sys.platform == "darwin" else "nearest.so"
FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-Wno-psabi"]


class CompiledHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the library into wheels, and into the source tree of an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say in the wheel's name for which platform."""
        wanted = os.environ.get("PRIVEM_COMPILED", "")
        if wanted == "0" or self.target_name != "wheel":
            return
        source = Path(self.root) / "src" / FOLDER
        self.folder = tempfile.TemporaryDirectory()
        library = Path(self.folder.name) / LIBRARY
        failure = compiled(source / "nearest.c", library)
        if failure:
            if wanted == "1":
                raise RuntimeError(failure)
            self.app.display_warning(f"privem is built without its compiled part: {failure}")
        elif version == "editable":
            # Another process may have the old one open: replaced, not overwritten.
            fresh = source / (LIBRARY + ".new")
            fresh.write_bytes(library.read_bytes())
            fresh.replace(source / LIBRARY)
        else:
            build_data["force_include"][str(library)] = str(FOLDER / LIBRARY)
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel holds by now."""
        if hasattr(self, "folder"):
            self.folder.cleanup()


def compiled(source: Path, library: Path) -> str:
    """What went wrong; empty if the library is there."""
    made_of = hashlib.sha256()
    for name in ("lanes.h", "nearest.c"):  # as privem/kernels/compiled.py
        made_of.update(source.with_name(name).read_bytes())
    version = f"-DVERSION={int.from_bytes(made_of.digest()[:7], 'big')}"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    command = [*compiler, *FLAGS, version, str(source), "-o", str(library)]
    try:
        run = subprocess.run([*command, "-lm"], capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    if run.returncode or not library.exists():
        return f"{command[0]} ended with {run.returncode}: {run.stderr.strip()[-500:]}"
    return ""
