#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first program of the lab guest: this machine's files below a layer of memory, then the command.
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /lower /layer /root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </modules/order
mount -t virtiofs -o ro host /lower || exec poweroff -f
mount -t tmpfs -o size=75% layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work overlay /root || exec poweroff -f
mount --move /proc /root/proc
mount --move /sys /root/sys
mount --move /dev /root/dev
for place in tmp run dev/shm; do
  mkdir -p "/root/$place"
  mount -t tmpfs -o mode=1777 tmpfs "/root/$place"
done
mkdir -p /root/run/lab
mount -t virtiofs out /root/run/lab || exec poweroff -f
exec switch_root /root /bin/sh /run/lab/command.sh
