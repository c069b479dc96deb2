#!/bin/sh
# What test_deb.py does in a fresh root, with packages in /mnt/first and newer ones in /mnt/newer. Results go to /mnt/out.
# SPDX-License-Identifier: Apache-2.0
set -eu
export DEBIAN_FRONTEND=noninteractive
out=/mnt/out
node=4xA100-SXM4-40GB

# Files outside caches and home directories whose path names Lull, and users and packages that do.
list_traces() {
    find / -xdev \( -path /mnt -o -path /root -o -path /proc -o -path /var/cache/apt -o -path /tmp \) -prune -o -name '*lull*' -print
    grep lull /etc/passwd /etc/group || :
    dpkg-query -W '*lull*' 2>/dev/null || :
}

install_packages() {
    apt-get install -y -qq --no-install-recommends "$@" >"$out/apt.log" 2>&1 || { cat "$out/apt.log" >&2; exit 1; }
}

list_traces >"$out/before"
date +%s.%N >"$out/begin"
cd /mnt/first
install_packages ./lull_*.deb ./lulld_*.deb ./liblull0_*.deb
date +%s.%N >"$out/installed"
lull emulate --seed 0 2xA100-SXM4-40GB -- lull run --no-daemon --report "$out/report" -- \
    lull play --preset resnet50-ddp --iterations 60 >"$out/run.log" 2>&1
date +%s.%N >"$out/verdict"

install_packages ./*.deb
for command in "simulate cluster" sweep budget model; do
    lull $command --help >/dev/null
done
lull-schedule --version >/dev/null
python3 -c 'import lull; lull.step(); print(lull.simulate(preset="resnet50-ddp", ranks=2, periods=20))' >"$out/python.log"

lull emulate --seed 0 $node -- sh /mnt/upgrade_steps.sh "$out" lulld 'dpkg -i /mnt/newer/*.deb'

mkdir -p /etc/lull /var/lib/lull /var/lib/lull-budget /var/lib/lull-schedule
echo 'price-per-kwh = 0.30 EUR' >/etc/lull/lull.conf
packages=$(dpkg-query -W -f '${Package} ' '*lull*')
dpkg --remove $packages >"$out/remove.log" 2>&1
list_traces >"$out/removed"
dpkg --purge $packages >"$out/purge.log" 2>&1
list_traces >"$out/purged"
