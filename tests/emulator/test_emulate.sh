#!/bin/sh
# lull emulate from the outside: statuses, messages, what it leaves behind.
# Usage: test_emulate.sh PROGRAM...   (the program may be several words, e.g. `lull emulate`)
# SPDX-License-Identifier: Apache-2.0
set -u
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() { # STATUS TEXT-IN-STDERR COMMAND...
    wanted=$1
    text=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -ne "$wanted" ] || { [ -n "$text" ] && ! grep -q -- "$text" "$work/err"; }; then
        echo "FAILED: $* gave $status (wanted $wanted, \"$text\"):"
        cat "$work/err"
        failures=$((failures + 1))
    fi
}

expect 0 '' "$@" 2xA100 -- true
expect 7 '' "$@" 2xA100 -- sh -c 'exit 7'
expect 7 '' "$@" 2xA100 sh -c 'exit 7'
expect 137 '' "$@" A100 -- sh -c 'kill -KILL $$'
expect 127 'no-such-command' "$@" A100 -- no-such-command
expect 4 'H100-SXM5' "$@" B9000 -- true
expect 2 'character 2' "$@" 2yA100 -- true
expect 2 'SPEC and COMMAND' "$@" A100
expect 2 'whole number' "$@" --seed -1 A100 -- true
expect 2 'time-scale' "$@" --time-scale nan A100 -- true
expect 2 'set_code' "$@" --fault nonsense A100 -- true
expect 0 '' "$@" --help
expect 0 '' "$@" --driver 535 A100 -- true
expect 2 'not a driver version' "$@" --driver 5x A100 -- true
expect 2 'not a driver version' "$@" --driver 570. A100 -- true
expect 4 'Known branches: 535' "$@" --driver 42 A100 -- true

# The node exists for the command, is open to all users, and is gone afterwards.
"$@" A100 -- sh -c 'stat -c %a "$LULL_EMULATED_NODE"; echo "$LULL_EMULATED_NODE"' >"$work/out"
node=$(tail -n 1 "$work/out")
if [ "$(head -n 1 "$work/out")" != 666 ] || [ -z "$node" ] || [ -e "$node" ]; then
    echo "FAILED: node file: $(cat "$work/out")"
    failures=$((failures + 1))
fi

# The faults of the energy counter hold for every vendor.
for model in A100 MI300X Max1550; do
    for fault in energy_stuck_j=5 energy_wrap_j=5; do
        "$@" --fault "$fault" "$model" -- "$1" gpus >"$work/out"
        if ! grep -q 'energy [0-5] J' "$work/out"; then
            echo "FAILED: $fault: $(cat "$work/out")"
            failures=$((failures + 1))
        fi
    done
done

# Faults of a running node.
"$@" A100 -- sh -c '"$@" set 0:get_code=3 && "$@" set --list && "$@" set "$LULL_EMULATED_NODE" get_code=off' \
    - "$@" >"$work/out" || { echo "FAILED: emulate set"; failures=$((failures + 1)); }
grep -q '^deny  ' "$work/out" || { echo "FAILED: emulate set --list"; failures=$((failures + 1)); }
expect 2 'no node' env -u LULL_EMULATED_NODE "$@" set xid=1
expect 2 'no FAULT' "$@" A100 -- "$@" set
expect 2 'expected' "$@" A100 -- "$@" set nonsense

# A signal reaches the command, and the node is gone as well.
"$@" A100 -- sh -c 'echo "$LULL_EMULATED_NODE" >'"$work"'/node; exec sleep 60' &
emulate=$!
while [ ! -s "$work/node" ]; do sleep 0.01; done
kill -TERM "$emulate"
wait "$emulate"
status=$?
if [ "$status" -ne 143 ] || [ -e "$(cat "$work/node")" ]; then
    echo "FAILED: SIGTERM gave $status"
    failures=$((failures + 1))
fi

"$@" --seed 0 --truth "$work/report" A100 -- sleep 0.2
if ! grep -q '"kernels_started": 0' "$work/report"; then
    echo "FAILED: report"
    failures=$((failures + 1))
fi
exit $((failures > 0))
