"""A headless Chromium that tests drive over its own pipe, with the DevTools protocol."""

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_SECONDS = 30.0


def program() -> str | None:
    """The path of Chromium; None if there is none here."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def why_not() -> str | None:
    """Why no page can be shown here, in one sentence; None where one can."""
    if program() is None:
        return f"there is no {PROGRAMS[0]} here; envs/chromium.sh installs it"
    return None


class Chromium:
    """A browser with one page. Everything that the page asks for, and every error of its scripts, is kept."""

    def __init__(self, profile: Path):
        """Start it.

        Args:
            profile: an empty folder for what the browser keeps.
        """
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on descriptor 4.
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, str(program()), *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._numbers, self._session = b"", itertools.count(1), ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_SECONDS)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self._keep(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page is loaded."""
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true."""
        end = time.monotonic() + _SECONDS
        while not self.run(condition):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.02)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key; `text` is what it types."""
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def size(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window in pixels, and the scheme of colours that the user prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], _SECONDS)[0], "Chromium does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _keep(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(
                    params["exceptionDetails"].get("exception", {}).get("description", str(params))
                )
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])
