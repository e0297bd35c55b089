# SPDX-License-Identifier: Apache-2.0
"""The results as JUnit's XML, which continuous integration servers read."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from headrace.conformance.case import Part, Result, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Sequence[Result]) -> str:
    """One suite for each part; what is not applicable is skipped."""
    root = ElementTree.Element("testsuites")
    for part in Part:
        mine = [each for each in results if each.case.part == part]
        if not mine:
            continue
        count = {verdict: sum(each.verdict == verdict for each in mine) for verdict in Verdict}
        suite = ElementTree.SubElement(
            root, "testsuite", name=part.value, tests=str(len(mine)),
            failures=str(count[Verdict.FAIL]), errors="0",
            skipped=str(count[Verdict.NOT_APPLICABLE]),
            time=f"{sum(each.seconds for each in mine):.3f}",
        )  # fmt: skip
        for each in mine:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"conformance.{part.value}",
                name=f"Test {each.case.number} - {each.case.name}", time=f"{each.seconds:.3f}",
            )  # fmt: skip
            if each.verdict == Verdict.FAIL:
                failure = ElementTree.SubElement(case, "failure", message=_text(each.reason))
                failure.text = _text(
                    "\n".join(f"{c.what}: expected {c.expected}, came {c.came}"
                              for c in each.findings.unmet)
                )  # fmt: skip
            elif each.verdict == Verdict.NOT_APPLICABLE:
                ElementTree.SubElement(case, "skipped", message=_text(each.reason))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
