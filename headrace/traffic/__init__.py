# SPDX-License-Identifier: Apache-2.0
"""The generator from Python: headrace-traffic, and TRex by the same methods."""

from headrace.traffic.client import TrafficClient, TrafficError, TrafficProcess
from headrace.traffic.histogram import LatencyHistogram, merged
from headrace.traffic.models import (
    Calibration,
    CalibrationSize,
    Counts,
    FrameSizes,
    GeneratorHealth,
    LatencyNs,
    Load,
    PortInfo,
    ReplaySpec,
    ReplaySpeed,
    StreamResult,
    StreamSpec,
    TrialResult,
    Variation,
    WorkerHealth,
    Zipf,
)

__all__ = [
    "Calibration",
    "CalibrationSize",
    "Counts",
    "FrameSizes",
    "GeneratorHealth",
    "LatencyHistogram",
    "LatencyNs",
    "Load",
    "PortInfo",
    "ReplaySpec",
    "ReplaySpeed",
    "StreamResult",
    "StreamSpec",
    "TrafficClient",
    "TrafficError",
    "TrafficProcess",
    "TrialResult",
    "Variation",
    "WorkerHealth",
    "Zipf",
    "merged",
]
