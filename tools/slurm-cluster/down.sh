#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stops the cluster that up.sh started in DIR: its jobs, its daemons, and nothing else. Leaves DIR with its logs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/lib.sh"

[[ $# == 1 && $1 != -* ]] || { echo "usage: down.sh DIR" >&2; exit 2; }
[[ -e $1/.slurm-cluster ]] || die "no cluster of up.sh in $1"
DIR=$(cd "$1" && pwd -P)
export SLURM_CONF=$DIR/slurm.conf

# A process and all its descendants, the descendants first.
tree() {
    local child
    for child in $(pgrep -P "$1"); do tree "$child"; done
    echo "$1"
}

# Waits up to five seconds until none of NAME... is left in pids; the first look sends them SIGNAL.
end() {
    local signal=$1 try
    shift
    for ((try = 0; try < 50; try++)); do
        mapfile -t pids < <(members "$@")
        ((${#pids[@]} > 0)) || return 0
        ((try > 0)) || kill "-$signal" "${pids[@]}" 2>/dev/null || true
        sleep 0.1
    done
    return 1
}

# Jobs first, while there are daemons that can end them.
if [[ -n $(members slurmctld) ]]; then
    for ((try = 0; try < 50; try++)); do
        mapfile -t jobs < <(timeout 5 squeue -h -o %A 2>/dev/null)
        ((${#jobs[@]} > 0)) || break
        ((try > 0)) || timeout 5 scancel "${jobs[@]}" || true
        sleep 0.1
    done
fi
end TERM slurmctld slurmd || end KILL slurmctld slurmd || true

# A slurmstepd outlives its slurmd; one that still runs now is stuck, and so is what it started.
for stepd in $(members slurmstepd); do
    mapfile -t pids < <(tree "$stepd")
    kill -KILL "${pids[@]}" 2>/dev/null || true
done
end TERM munged || true
end KILL slurmctld slurmd slurmstepd munged || die "still running:" "${pids[@]}"
