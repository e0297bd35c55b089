# SPDX-License-Identifier: Apache-2.0
"""The results as one JSON object, for programs."""

import dataclasses
import platform
import time
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from headrace.conformance.case import Case, Result


def described(case: Case) -> dict[str, Any]:
    """What a test is."""
    return {
        "number": case.number,
        "name": case.name,
        "part": case.part.value,
        "configuration": case.configuration,
        "procedure": list(case.procedure),
        "expected": case.expected,
    }


def document(results: Sequence[Result], manifest: dict[str, Any]) -> dict[str, Any]:
    """All results with their evidence."""
    return {
        "summary": summary(results),
        "tests": [
            {
                **described(each.case),
                "verdict": each.verdict.value,
                "reason": each.reason,
                "seconds": round(each.seconds, 3),
                "evidence": dataclasses.asdict(each.findings),
            }
            for each in results
        ],
        "manifest": manifest,
    }


def summary(results: Sequence[Result]) -> dict[str, int]:
    """How many tests have each verdict."""
    return dict(Counter(each.verdict.value for each in results))


def manifest_of(address: str, information: Any) -> dict[str, Any]:
    """What was tested, by what, where and when."""
    said = information if isinstance(information, dict) else {}
    return {
        "node": address,
        "information": {key: said[key] for key in ("name", "version", "switch") if key in said},
        "tests": f"headrace {version('headrace')}",
        "machine": {"kernel": platform.release(), "architecture": platform.machine()},
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
