# SPDX-License-Identifier: Apache-2.0
"""Protocols between Python and the C++ programs; dataplane/ has the other side of each."""
