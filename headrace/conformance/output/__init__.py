# SPDX-License-Identifier: Apache-2.0
"""The results of the tests as text, JSON, JUnit's XML and one HTML page with the charts."""
