# SPDX-License-Identifier: Apache-2.0
"""Scenarios by the words of other suites: NFVbench's one line, VSPERF's names of test cases.

NFVbench: `--service-chain PVP`, `--service-chain-count`, `--flow-count 10k`, `--frame-size IMIX`,
`--rate ndr_pdr` or a fixed one such as `10kpps`, `--duration`; NDR may lose 0.001 %, PDR 0.1 %, as
its default configuration says, and traffic goes both ways.

VSPERF: deployments p2p, pvp, pvvp<n> (n VNFs in a chain), pvpv<n> (n side by side), alone or in the
names of its test cases: `phy2phy_tput`, `pvp_cont`, `pvvp_back2back`.
"""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from headrace.bench.errors import ScenarioError
from headrace.bench.scenario import Scenario, places

NDR_LOSS, PDR_LOSS = 0.00001, 0.001
CHAINS = ("PVP", "PVVP", "EXT")
RATES = ("ndr", "pdr", "ndr_pdr")
IMIX = {"nfvbench": "imix-nfvbench"}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)pps")
_FACTOR = {"": 1.0, "k": 1e3, "m": 1e6}
_CASE = re.compile(r"(p2p|phy2phy|pvp|pvvp|pvpv)(\d*)(?:_(tput|cont|back2back))?")
VSPERF_SIZES = (64, 128, 512, 1024, 1518)


def count_of(text: str) -> int:
    """`10k` as a number.

    Raises:
        ScenarioError: it is none.
    """
    found = _COUNT.fullmatch(text.strip())
    if found is None:
        raise ScenarioError(f"{text!r} is no count such as 1000, 10k or 1M")
    return round(float(found[1]) * _FACTOR[found[2].lower()])


def pps_of(text: str) -> float:
    """`10kpps` as packets per second.

    Raises:
        ScenarioError: it is no rate in packets.
    """
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ScenarioError(f"--rate {text!r}: {', '.join(RATES)}, or packets such as 500kpps")
    return float(found[1]) * _FACTOR[found[2].lower()]


def size_of(text: str) -> int | str:
    """A frame size: bytes with FCS, or IMIX, which is NFVbench's 7:4:1 of 64, 594 and 1518.

    Raises:
        ScenarioError: it is neither.
    """
    if text.upper() == "IMIX":
        return IMIX["nfvbench"]
    if not text.isdigit():
        raise ScenarioError(f"--frame-size {text!r}: bytes such as 64, or IMIX")
    return int(text)


def _made(name: str, title: str, members: dict[str, Any]) -> Scenario:
    content = {"name": name, "title": title, "question": f"What does {title} carry?", **members}
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        raise ScenarioError(f"{name}: {places(error)}") from error


def nfvbench(
    chain: str,
    subject: dict[str, Any],
    *,
    count: int = 1,
    flows: int = 10_000,
    sizes: Sequence[str] = ("64",),
    rate: str = "ndr_pdr",
    duration_s: float | None = None,
    both_ways: bool = True,
) -> Scenario:
    """The scenario of NFVbench's one line.

    Args:
        chain: PVP, PVVP, or EXT: no VNF, as if its chain were somewhere else.
        subject: as in a scenario.
        count: chains side by side.
        flows: in all chains together.
        sizes: each as `size_of` reads it.
        rate: ndr, pdr, ndr_pdr, or a fixed one in packets.
        duration_s: of final trials; None for short ones.
        both_ways: traffic in both directions.

    Raises:
        ScenarioError: a word is not NFVbench's, or the chains can't be made.
    """
    if chain.upper() not in CHAINS:
        raise ScenarioError(f"--chain {chain!r}: {', '.join(CHAINS)}")
    if count > 1 and chain.upper() != "PVP":
        raise ScenarioError("--service-chain-count: only chains of one VNF run side by side")
    graphs: dict[str, dict[str, Any]] = {
        "EXT": {"shape": "p2p"},
        "PVP": {"shape": "parallel", "vnfs": [count], "placement": "distribute"},
        "PVVP": {"shape": "chain", "vnfs": [2], "placement": "gather"},
    }
    graph = graphs[chain.upper()]
    if rate.lower() in RATES:
        losses = {"ndr": [NDR_LOSS], "pdr": [PDR_LOSS]}.get(rate.lower(), [NDR_LOSS, PDR_LOSS])
        search = "quick" if duration_s is None else "rfc2544"
        measure: dict[str, Any] = {
            "search": search,
            "loss_ratios": losses,
            "search_trial_s": duration_s,
            "latency_at": [1.0] if PDR_LOSS in losses else [],
        }
    else:
        measure = {"loads_pps": [pps_of(rate)]}
    return _made(
        f"nfvbench-{chain.lower()}",
        f"NFVbench {chain.upper()}, {count} chain{'s' if count > 1 else ''}",
        {
            "graphs": [graph],
            "subjects": [subject],
            "traffic": {
                "sizes": [size_of(one) for one in sizes],
                "flows": [flows],
                "both_ways": both_ways,
            },
            "measure": measure,
        },
    )


def vsperf(case: str, subjects: Sequence[dict[str, Any]], sizes: Sequence[str] = ()) -> Scenario:
    """The scenario of one of VSPERF's deployments or test cases.

    Raises:
        ScenarioError: it is none; `v2v` is a command (`headrace bench run vsperf/v2v`).
    """
    found = _CASE.fullmatch(case)
    if found is None or (found[1] in ("p2p", "phy2phy", "pvp") and found[2]):
        raise ScenarioError(
            f"{case!r} is none of p2p, pvp, pvvp<n>, pvpv<n>, alone or with _tput, _cont or "
            "_back2back; v2v is `headrace bench run vsperf/v2v`"
        )
    word, number, kind = found[1], int(found[2] or 2), found[3]
    graphs: dict[str, dict[str, Any]] = {
        "p2p": {"shape": "p2p"},
        "phy2phy": {"shape": "p2p"},
        "pvp": {"shape": "chain", "vnfs": [1], "placement": "gather"},
        "pvvp": {"shape": "chain", "vnfs": [number], "placement": "gather"},
        "pvpv": {"shape": "parallel", "vnfs": [number], "placement": "distribute"},
    }
    kinds: dict[str, dict[str, Any]] = {
        "tput": {"search": "rfc2544"},
        "cont": {"overload": True},
        "back2back": {"overload": True, "back_to_back": {}},
    }
    measure = kinds.get(kind or "", {"overload": True, "search": "quick"})
    return _made(
        f"vsperf-{case}",
        f"VSPERF {case}",
        {
            "graphs": [graphs[word]],
            "subjects": list(subjects),
            "traffic": {"sizes": [size_of(one) for one in sizes] or list(VSPERF_SIZES)},
            "measure": measure,
        },
    )
