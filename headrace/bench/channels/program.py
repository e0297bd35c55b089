# SPDX-License-Identifier: Apache-2.0
"""The client of headrace-channel, which runs two processes with a channel between them."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError

from headrace.bench.channels.kinds import FCS, Case

ANSWER_S = 40.0

Model = TypeVar("Model", bound=BaseModel)


class ChannelError(Exception):
    """A channel could not be opened or measured; the text says which and why."""


class Forked(BaseModel):
    """Ids of the two ends' processes."""

    producer: int
    consumer: int


class Window(BaseModel):
    """The traffic of a channel in one window.

    Attributes:
        packets: received with the length that was sent.
        sent: by the producer; where packets circulate, as many as came back to it.
        foreign: received with another length: sent by the kernel, or in the previous window.
        corrupt: received with a wrong payload.
        seconds: length of the window.
    """

    packets: int = Field(ge=0)
    sent: int = Field(ge=0)
    foreign: int = Field(ge=0)
    corrupt: int = Field(ge=0)
    seconds: float = Field(gt=0)


class Channel:
    """A running headrace-channel; use as an asynchronous context manager."""

    def __init__(self, program: Path, arguments: Sequence[str], log: Path) -> None:
        """Nothing is started; its stderr is written to `log`."""
        self._command = [str(program), *arguments]
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self.ends = Forked(producer=0, consumer=0)

    async def __aenter__(self) -> Self:
        """Starts it; its ends are forked but have not opened the channel."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        try:
            self.ends = _read(Forked, (await self._answer())["forked"])
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Terminates it and its ends."""
        await self._end()

    async def open(self) -> None:
        """Opens the channel at both ends."""
        await self._ask({"do": "open"})

    async def measure(self, case: Case, seconds: float, settle_s: float) -> Window:
        """Measures one window, after `settle_s` of traffic that does not count."""
        wish = {
            "do": "measure",
            "length": case.size - FCS,
            "touch": case.touch,
            "seconds": seconds,
            "settle_s": settle_s,
        }
        return _read(Window, await self._ask(wish))

    async def _ask(self, wish: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        await self._process.stdin.drain()
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_S)
            answer = json.loads(line)
        except (TimeoutError, json.JSONDecodeError) as error:
            raise ChannelError(f"headrace-channel gave no answer: {self._last_words()}") from error
        if not isinstance(answer, dict) or "error" in answer:
            told = answer.get("error") if isinstance(answer, dict) else answer
            raise ChannelError(f"{told} {self._last_words()}".strip())
        return answer

    def _last_words(self) -> str:
        words = self._log.read_text(errors="replace").strip()[-300:]
        return f"(log: {words})" if words else ""

    async def _end(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 12)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def _read(model: type[Model], answer: Any) -> Model:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        raise ChannelError(f"headrace-channel answered {answer!r}: {error}") from error
