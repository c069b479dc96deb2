#!/bin/sh
# Upgrades Lull on the emulated node while a job runs under lulld and another holds GPU 3 at a low clock. Both continue through
# the upgrade and the restart of lulld. test_deb.py and test_wheel.py execute it and check the files in OUT
# (upgrade_checks.py).
#
# usage: upgrade_steps.sh OUT LULLD UPGRADE    LULLD: lulld's path, before and after; UPGRADE: the command that upgrades
# SPDX-License-Identifier: Apache-2.0
set -eu
out=$1
lulld=$2
upgrade=$3
socket=${LULL_RUNTIME_DIR:-/run/lull}/lulld.sock

# Prints what COMMAND prints once TEXT is in COUNT of its lines, or after a minute.
await() {
    seconds=0
    until [ "$($1 | grep -c "$2")" -ge "$3" ] || [ $seconds -eq 60 ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    $1
}

lull play --preset resnet50-ddp --ranks 2 --iterations 60 >"$out/calm.log"
$lulld 2>"$out/lulld-first.log" &
daemon=$!
until [ -S "$socket" ]; do sleep 0.1; done
lull run --report "$out/upgraded" -- lull play --preset resnet50-ddp --ranks 2 --iterations 300 >"$out/job.log" 2>&1 &
job=$!
lull job hold --gpus 3 --sm-clock 900 held >"$out/hold.log" 2>&1 &
hold=$!
await "lull status --json" '"applied_sm_mhz": 900' 1 >"$out/low.json"
sh -c "$upgrade" >"$out/upgrade.log" 2>&1
kill -0 $job
lull status --json >"$out/upgraded.json"
kill $daemon
wait $daemon
$lulld 2>"$out/lulld-newer.log" &
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
