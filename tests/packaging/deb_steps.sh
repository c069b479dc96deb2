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

# A job under lulld, and one that holds a GPU at a low clock, go on through an upgrade and the restart that follows it where
# systemd is.
cat >/mnt/upgrade.sh <<'END'
set -eu
out=/mnt/out

# Prints what COMMAND prints once TEXT is in COUNT of its lines, or after a minute.
await() {
    seconds=0
    until [ "$($1 | grep -c "$2")" -ge "$3" ] || [ $seconds -eq 60 ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    $1
}

lulld 2>"$out/lulld-first.log" &
daemon=$!
until [ -S /run/lull/lulld.sock ]; do sleep 0.1; done
lull run --report "$out/upgraded" -- lull play --preset resnet50-ddp --ranks 2 --iterations 300 >"$out/job.log" 2>&1 &
job=$!
lull job hold --gpus 3 --sm-clock 900 held >"$out/hold.log" 2>&1 &
hold=$!
await "lull status --json" '"applied_sm_mhz": 900' 1 >"$out/low.json"
dpkg -i /mnt/newer/*.deb >"$out/upgrade.log" 2>&1
kill -0 $job
lull status --json >"$out/upgraded.json"
kill $daemon
wait $daemon
lulld 2>"$out/lulld-newer.log" &
daemon=$!
status=0
wait $job || status=$?
echo $status >"$out/job.status"
kill $hold
wait $hold || :
lull status --json >"$out/after.json"
# Under load a GPU whose clock was left low shows it.
lull play --preset resnet50-ddp --ranks 4 --iterations 900 >/dev/null &
await "lull gpus --json" '"sm_clock_mhz": 1410,' 4 >"$out/loaded.json"
kill $!
wait $! || :
kill $daemon
wait $daemon
END
lull emulate --seed 0 $node -- sh /mnt/upgrade.sh

mkdir -p /etc/lull /var/lib/lull /var/lib/lull-budget /var/lib/lull-schedule
echo 'price-per-kwh = 0.30 EUR' >/etc/lull/lull.conf
packages=$(dpkg-query -W -f '${Package} ' '*lull*')
dpkg --remove $packages >"$out/remove.log" 2>&1
list_traces >"$out/removed"
dpkg --purge $packages >"$out/purge.log" 2>&1
list_traces >"$out/purged"
