# SPDX-License-Identifier: Apache-2.0
"""Small Linux guests: a Debian kernel, busybox and programs of this machine in an initramfs."""
