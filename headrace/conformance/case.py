# SPDX-License-Identifier: Apache-2.0
"""One of the 26 tests: what it is for, how it is made, what is expected, and what came of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.conformance.findings import Findings
from headrace.conformance.target import Target


class Part(StrEnum):
    """The annex that a test is of."""

    INTERFACES = "interfaces"
    FUNCTIONS = "functions"
    PERFORMANCE = "performance"


class Verdict(StrEnum):
    """What came of a test."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


Run = Callable[[Target, Findings], Awaitable[None]]


@dataclass(frozen=True)
class Case:
    """A test; `loaded`: it needs a generator at two of the node's ports, not single frames."""

    number: int
    name: str
    part: Part
    configuration: str
    procedure: tuple[str, ...]
    expected: str
    run: Run
    loaded: bool = False


@dataclass(frozen=True)
class Result:
    """The verdict of a test, with its evidence; `reason` is that of a fail or not applicable.

    `information` is what the node said of itself (GET /node), if it did.
    """

    case: Case
    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)
    information: Any = None
