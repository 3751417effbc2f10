"""A real browser for the tests: Chromium without a window, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from select import select
from typing import Any

from ..conftest import AXE, CHROMIUM

PHONE, DESKTOP = (390, 844), (1280, 900)
# Seconds until a browser that does not answer is given up.
_PATIENCE = 120
# Becomes another program, whose pipes 3 and 4 are those of these numbers. They are moved out of the
# way first: one of them may be 3 or 4.
_AS_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """Opens pages, and remembers what they complained of and asked for.

    Commands are JSON texts that end with a zero byte, over two pipes: 3 and 4 of the browser.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, theirs_out = os.pipe()
        theirs_in, write = os.pipe()

        options = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
            *("--remote-debugging-pipe", f"--user-data-dir={self._folder.name}"),
            # Nothing in a page may reach the network, and tests do not either.
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars", "about:blank"),
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AS_PIPES, str(theirs_in), str(theirs_out), CHROMIUM, *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read, self._write = os.fdopen(read, "rb"), os.fdopen(write, "wb", buffering=0)
        self._number, self._waiting = 0, b""
        self.events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            if not select([self._read], [], [], _PATIENCE)[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self._read.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._waiting += part
        text, _, self._waiting = self._waiting.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        if "method" in found:
            self.events.append(found)
        return found

    def _ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._write.write(json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def ask(self, method: str, **parameters: Any) -> Any:
        """A command to the page."""
        return self._ask(method, self._session, **parameters)

    def open(self, path: Path, size: tuple[int, int] = DESKTOP, query: str = "") -> None:
        """Open a file in a window of this size."""
        width, height = size
        phone = {"width": width, "height": height, "mobile": width < 600, "deviceScaleFactor": 1}
        self.ask("Emulation.setDeviceMetricsOverride", **phone)
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri() + query)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._message()

    def evaluate(self, code: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        how = {"returnByValue": True, "awaitPromise": True}
        found = self.ask("Runtime.evaluate", expression=code, **how)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait_for(self, code: str, seconds: float = 30) -> None:
        """Wait until an expression in the page is true."""
        until = time.monotonic() + seconds
        while not self.evaluate(code):
            if time.monotonic() > until:
                raise TimeoutError(code)
            time.sleep(0.1)

    @property
    def complaints(self) -> list[str]:
        """What the page has written to its console, or failed at."""
        return self._complaints(None)

    @property
    def errors(self) -> list[str]:
        """Warnings, errors and failures; not what a page remarks."""
        return self._complaints(("warning", "error"))

    def _complaints(self, kinds: tuple[str, ...] | None) -> list[str]:
        found = []
        for event in self.events:
            match event["method"], event["params"]:
                case "Runtime.consoleAPICalled", about if kinds and about["type"] not in kinds:
                    continue
                case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown", about:
                    found.append(json.dumps(about))
                case "Log.entryAdded", {"entry": entry}:
                    found.append(entry["text"])
        return found

    @property
    def requests(self) -> list[str]:
        """What the page has asked for, itself included."""
        sent = (e for e in self.events if e["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    def axe(self, *, serious: bool = False) -> list[str]:
        """What axe-core finds wrong with the page, or what of it is serious."""
        self.evaluate(AXE.read_text("utf-8") + ";0")
        # It would ask for style sheets once more, which a page from a file may not do.
        found = self.evaluate("axe.run(document, {preload: false}).then(r => r.violations)")
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found
            if not serious or each["impact"] in ("serious", "critical")
        ]

    def screenshot(self, path: Path) -> None:
        """All of the page as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))

    def print(self, path: Path) -> None:
        """The page on A4 paper, as a PDF."""
        how = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
        made = self.ask("Page.printToPDF", printBackground=True, **how)
        path.write_bytes(base64.b64decode(made["data"]))

    def close(self) -> None:
        """End the browser."""
        self._write.close()
        self._read.close()
        self._process.terminate()
        self._process.wait(_PATIENCE)
        self._folder.cleanup()
