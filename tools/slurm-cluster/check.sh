#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the test cluster work on this host? Starts 4 nodes with 8 GPUs each, runs jobs on them and stops them again.
# shellcheck disable=SC2016 # the jobs' shells expand those
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/lib.sh"
DIR=$(mktemp -d)
trap '"$here/down.sh" "$DIR" && rm -rf "$DIR"' EXIT

passed=0
expect() {
    [[ $2 == "$3" ]] || { echo "FAILED: $1: got '$2', expected '$3'" >&2; echo "$passed passed, 1 failed"; exit 1; }
    echo "ok: $1"
    passed=$((passed + 1))
}

eval "$("$here/up.sh" -n 4 -g 8 "$@" "$DIR")"
expect "four nodes are idle, each with eight GPUs" "$(sinfo -h -o '%D %t %G')" "4 idle gpu:h100:8"
expect "a job runs on all of them" "$(srun -Q -N4 sh -c 'echo $SLURMD_NODENAME' | sort | xargs)" "n1 n2 n3 n4"
expect "hostname runs four times" "$(srun -Q -N4 hostname -s | sort | uniq -c | xargs)" "4 $(hostname -s)"
expect "a job gets the GPUs that it asks for" "$(srun -Q -N1 --gres=gpu:2 sh -c 'echo $CUDA_VISIBLE_DEVICES')" "0,1"
sbatch -Q -W -N2 --gres=gpu:8 -o "$DIR/out" --wrap 'srun -l sh -c "echo \$SLURM_STEP_GPUS"'
expect "a batch job's steps see all eight" "$(sort "$DIR/out" | xargs)" "0: 0,1,2,3,4,5,6,7 1: 0,1,2,3,4,5,6,7"
sbatch -Q -N1 -o /dev/null --wrap 'sleep 1000'
"$here/down.sh" "$DIR"
expect "nothing of it is left" "$(members slurmctld slurmd slurmstepd munged)" ""
echo "$passed passed, 0 failed"
