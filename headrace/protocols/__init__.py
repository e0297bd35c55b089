# SPDX-License-Identifier: Apache-2.0
"""What Python says to the C++ programs; dataplane/ holds the other half of each."""
