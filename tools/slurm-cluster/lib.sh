# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by up.sh, down.sh and check.sh.
PATH=$PATH:/usr/sbin:/sbin

say() { echo "${0##*/}: $*" >&2; }
die() { say "$@"; exit 1; }

# The processes called NAME... that belong to the cluster in $DIR: each keeps a log file of its own in there open.
# (Command lines and environments do not tell: Slurm overwrites both with its process title.)
members() {
    local proc name
    for proc in /proc/[0-9]*; do
        { read -r name <"$proc/comm"; } 2>/dev/null || continue
        [[ " $* " == *" $name "* ]] || continue
        if [[ -n $(find "$proc/fd" -lname "$DIR/log/*" -print -quit 2>/dev/null) ]]; then
            echo "${proc#/proc/}"
        fi
    done
}
