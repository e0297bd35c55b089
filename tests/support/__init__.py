# SPDX-License-Identifier: Apache-2.0
"""What end-to-end tests of several modules share: daemons, devices and frames."""
