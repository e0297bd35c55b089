# SPDX-License-Identifier: Apache-2.0
"""Runs tests against a node, one after the other, and gives each its verdict.

What goes wrong within a test is its fail, never the end of the run: a node that stops to answer
fails what needs it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Protocol

from headrace.conformance.case import Case, Result, Verdict
from headrace.conformance.findings import Findings, NotApplicable, Stopped
from headrace.conformance.rest import NoAnswer
from headrace.conformance.target import Target
from headrace.traffic import TrafficError

TEST_S = 900.0
_SHOWN = 3


class Bed(Protocol):
    """Where the node under test is: one for all tests, or one that is started for some of them."""

    def target(self, loaded: bool) -> AbstractAsyncContextManager[Target]:
        """Within it the node is there, for tests with a generator (`loaded`) or without.

        Raises:
            Unavailable: it can't be had.
        """
        ...

    @property
    def is_one(self) -> bool:
        """Whether all tests have the same node."""
        ...


async def run_one(case: Case, target: Target) -> Result:
    """The verdict of one test."""
    findings = Findings()
    began = time.monotonic()
    verdict, reason = Verdict.PASS, ""
    try:
        async with asyncio.timeout(TEST_S):
            await case.run(target, findings)
    except NotApplicable as none:
        verdict, reason = Verdict.NOT_APPLICABLE, str(none)
    except Stopped as stopped:
        verdict, reason = Verdict.FAIL, str(stopped)
    except TimeoutError:
        verdict, reason = Verdict.FAIL, f"not ended after {TEST_S:g} s"
    except (NoAnswer, TrafficError, OSError) as error:
        verdict, reason = Verdict.FAIL, f"{type(error).__name__}: {error}"
    finally:
        await target.clear()
    if findings.unmet:
        verdict = Verdict.FAIL
        first = [f"{each.what}: expected {each.expected}, came {each.came}"
                 for each in findings.unmet[:_SHOWN]]  # fmt: skip
        more = len(findings.unmet) - len(first)
        reason = "; ".join(first) + (f"; and {more} more" if more else "")
    seconds = time.monotonic() - began
    information = None
    with suppress(NoAnswer):
        information = (
            (await target.node.rest.get("/node")).content if target.node.dialect.own else None
        )
    return Result(case, verdict, reason, seconds, findings, information)


async def run(
    bed: Bed, cases: Sequence[Case], tell: Callable[[Case], None] = lambda _: None
) -> AsyncIterator[Result]:
    """The results of the tests, each as soon as it is there; `tell` says which one begins.

    Those with a generator come last, so that a bed with two nodes starts each once.

    Raises:
        Unavailable: there is no node.
    """
    async with AsyncExitStack() as stack:
        target: Target | None = None
        loaded = False
        for case in sorted(cases, key=lambda each: (each.loaded, each.number)):
            if target is None or (case.loaded != loaded and not bed.is_one):
                await stack.aclose()
                target = await stack.enter_async_context(bed.target(case.loaded))
            loaded = case.loaded
            tell(case)
            yield await run_one(case, target)
