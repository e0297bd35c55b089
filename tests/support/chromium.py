# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium under a test's control, by the DevTools protocol over a pair of pipes."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_LONGEST_MESSAGE = 64 << 20


def browser() -> str:
    """The program; skips the test if there is none."""
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")


class Tab:
    """One page of a browser. `faults` are its uncaught errors and what it wrote as errors."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session: str | None = None
        self.faults: list[str] = []
        self.requested: list[str] = []
        self._task = asyncio.create_task(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        answer = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(30):
            found = await answer
        if "error" in found:
            raise AssertionError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
                if "id" in message:
                    self._waiting.pop(message["id"]).set_result(message)
                else:
                    self._note(message["method"], message["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.faults.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(told["request"]["url"])

    async def open(self) -> None:
        """Makes the page."""
        target = await self.call("Target.createTarget", url="about:blank")
        joined = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = joined["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")

    async def size(self, width: int, height: int, dark: bool = False) -> None:
        """Gives the page a window of this size; light or dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def go(self, url: str) -> None:
        """Loads an address."""
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression gives, awaited if it is a promise."""
        found = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    async def until(self, expression: str, seconds: float = 15.0) -> None:
        """Waits until an expression gives something true; what it needs may not be there yet."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                if await self.value(f"Promise.resolve({expression}).then(Boolean)"):
                    return
                fault = ""
            except AssertionError as error:
                fault = str(error)
            if asyncio.get_running_loop().time() > deadline:
                shown = await self.value("document.body.innerText")
                text = f"{expression}: not within {seconds} s {fault}; the page:\n{shown}"
                raise AssertionError(text)
            await asyncio.sleep(0.05)

    async def picture(self, file: Path) -> None:
        """Writes a picture of the whole page."""
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        await asyncio.to_thread(file.write_bytes, base64.b64decode(shot["data"]))

    async def close(self) -> None:
        """Ends the browser."""
        with contextlib.suppress(AssertionError, TimeoutError):
            self._session = None
            await self.call("Browser.close")
        self._task.cancel()


@asynccontextmanager
async def tab_of(program: str) -> AsyncIterator[Tab]:
    """A browser with one page and a profile of its own; nothing of it stays."""
    loop = asyncio.get_running_loop()
    profile = tempfile.mkdtemp(prefix="hr-browser-")
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    pid = _start(program, profile, commands, answers)
    os.close(commands)
    os.close(answers)
    reader = asyncio.StreamReader(limit=_LONGEST_MESSAGE)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_browser, "rb")
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(to_browser, "wb")
    )
    tab = Tab(reader, asyncio.StreamWriter(transport, protocol, None, loop))
    try:
        await tab.open()
        yield tab
    finally:
        await tab.close()
        transport.close()
        await asyncio.to_thread(_end, pid)
        shutil.rmtree(profile, ignore_errors=True)


def _start(program: str, profile: str, commands: int, answers: int) -> int:
    """The browser's process, with its pipes where it looks for them: at 3 and 4."""
    moved = (103, 104)
    return os.posix_spawn(
        program,
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--remote-debugging-pipe", "--disable-background-networking",
         "--disable-component-update", "--no-first-run", f"--user-data-dir={profile}"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, commands, moved[0]),
            (os.POSIX_SPAWN_DUP2, answers, moved[1]),
            (os.POSIX_SPAWN_DUP2, moved[0], 3),
            (os.POSIX_SPAWN_DUP2, moved[1], 4),
        ],
        setsid=True,
    )  # fmt: skip


def _end(pid: int) -> None:
    """Waits for the browser's end, and makes it end after five seconds."""
    for _ in range(100):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
