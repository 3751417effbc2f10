"""Processes that start at once: forks of one that has imported everything.

A party's process takes two and a half seconds of imports, and the tests start hundreds. ``python
zygote.py`` reads orders (JSON, one a line) and forks a process for each, which is ``privem`` from
there on, with a process number, sockets and files of its own. When it ends, however it ends, its
exit code is in the file that the order named. (The guide's test starts real commands.)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path


class Zygote:
    """The test's end: orders processes."""

    def __init__(self, env: dict[str, str]) -> None:
        self._mother = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def spawn(self, **order: object) -> Spawned:
        """A process; the order has ``words``, ``deeds``, ``cwd``, ``env``, ``out``, ``err``."""
        assert self._mother.stdin is not None
        assert self._mother.stdout is not None
        print(json.dumps(order), file=self._mother.stdin, flush=True)
        return Spawned(int(self._mother.stdout.readline()), Path(f"{order['out']}.code"))

    def close(self) -> None:
        """End; all processes have ended before."""
        self._mother.communicate()


class Spawned:
    """What :class:`subprocess.Popen` would be, of a process that is not our child."""

    def __init__(self, pid: int, code: Path) -> None:
        self.pid, self._code = pid, code
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or ``None`` while it runs."""
        if self.returncode is None and self._code.exists():
            self.returncode = int(self._code.read_text())
        return self.returncode

    def wait(self, seconds: float = 60) -> int:
        """Its exit code."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self._code), seconds)
            time.sleep(0.02)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)


def _become(order: dict) -> None:
    """The rest of a forked process's life."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(order["cwd"])
        os.environ.update(order["env"])
        for number, where in ((0, "/dev/null"), (1, order["out"]), (2, order["err"])):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(where, mode, 0o600), number)
        import mischief

        mischief.act(order["deeds"], order["words"])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _mother() -> None:
    codes: dict[int, str] = {}
    ended: dict[int, int] = {}

    def tell(*_: object) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
        for pid in [pid for pid in ended if pid in codes]:
            path = Path(codes.pop(pid))
            part = path.with_name(f".{path.name}")
            part.write_text(str(ended.pop(pid)))
            part.replace(path)

    signal.signal(signal.SIGCHLD, tell)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(order)
        codes[pid] = f"{order['out']}.code"
        tell()
        print(pid, flush=True)


def _imports() -> None:
    """What privem's commands import, Flower as privem has it."""
    from importlib import import_module

    from privem.federation.flower import require

    require()
    for name in (
        "mischief",
        "privem.cli",
        "flwr.clientapp",
        "flwr.serverapp",
        "flwr.supercore.control.control_http_client",
        "flwr.superlink.cli.flower_superlink",
        "flwr.superlink.grid",
        "flwr.supernode.fleet_http_client",
        "flwr.supernode.node_auth_http_interceptor",
    ):
        import_module(name)


if __name__ == "__main__":
    _imports()
    _mother()
