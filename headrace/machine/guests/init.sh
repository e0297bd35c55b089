#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The guest's first process. Runs /autostart if there is one; then, if there is a second serial port,
# each line that comes there, in a shell of its own, and answers with what it wrote and a last line
# `exit <status>`.
/bin/busybox mkdir -p /bin /dev /proc /sys /tmp /run /var
/bin/busybox --install -s /bin
chmod 755 /  # DPDK loads no driver from below a directory that anyone may write to
export PATH=/bin:/sbin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
# Not over what the image brings there: programs are at their host's places, which may be below /tmp.
for directory in /tmp /run; do
  [ -n "$(ls $directory)" ] || mount -t tmpfs none $directory
done
ln -s /run /var/run
mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages
while read -r module; do
  insmod "/modules/$module" || echo "guest: $module does not load"
done </modules/order
ip link set lo up
[ -e /autostart ] && sh /autostart
stty -F /dev/ttyS1 raw -echo || while :; do sleep 1000; done
exec </dev/ttyS1 >/dev/ttyS1 2>&1
echo "exit 0"
while read -r line; do
  sh -c "$line" </dev/null
  echo "exit $?"
done
