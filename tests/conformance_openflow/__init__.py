# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 conformance: os-ken's switch test suite, against headrace-switch or Open vSwitch."""
