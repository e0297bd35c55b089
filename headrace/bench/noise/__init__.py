# SPDX-License-Identifier: Apache-2.0
"""What disturbs a trial: stolen time, gaps of the clock, frequency; and waiting for quiet."""
