#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a Slurm cluster for tests: slurmctld and several slurmd on this host, each with fake GPUs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/lib.sh"

usage() {
    cat >&2 <<X
usage: up.sh [options] DIR
  -n NODES      nodes n1..nNODES (4)
  -g GPUS       GPUs per node (8)
  -m MODEL      their gres type (h100)
  -c CPUS       cores per node (32)
  -p PORT       slurmctld's port; the nodes take the NODES ports after it (16800)
  -w SECONDS    how long to wait for all nodes (30, and one more for every 8 nodes)
  -x FILE       append FILE to slurm.conf; repeatable
  -s LINE       append LINE to plugstack.conf; repeatable
  -t TEMPLATES  take the configuration templates from there
Everything the cluster writes is below DIR. Prints the line to eval before using it: export SLURM_CONF=...
X
    exit 2
}

nodes=4 gpus=8 model=h100 cpus=32 port=16800 wait='' templates=$here/templates
extra=() spank=()
while getopts n:g:m:c:p:w:x:s:t: opt; do
    case $opt in
    n) nodes=$OPTARG ;;
    g) gpus=$OPTARG ;;
    m) model=$OPTARG ;;
    c) cpus=$OPTARG ;;
    p) port=$OPTARG ;;
    w) wait=$OPTARG ;;
    x) extra+=("$OPTARG") ;;
    s) spank+=("$OPTARG") ;;
    t) templates=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[[ $# == 1 ]] || usage
for number in "$nodes" "$cpus" "$port" "${wait:-1}"; do
    [[ $number =~ ^[1-9][0-9]{0,4}$ ]] || die "not a positive number: '$number'"
done
[[ $gpus =~ ^(0|[1-9][0-9]{0,2})$ ]] || die "not a number of GPUs: '$gpus'"
wait=${wait:-$((30 + nodes / 8))}

# The directory: ours, or empty.
mkdir -p "$1"
DIR=$(cd "$1" && pwd -P)
[[ $DIR =~ ^[A-Za-z0-9_./+-]{2,60}$ ]] || die "DIR must be a plain path of at most 60 characters (it holds sockets): $DIR"
[[ -e $DIR/.slurm-cluster || -z $(ls -A "$DIR") ]] || die "$DIR is neither empty nor a cluster of up.sh"
[[ -z $(members slurmctld slurmd slurmstepd munged) ]] || die "a cluster is already running in $DIR; down.sh stops it"
touch "$DIR/.slurm-cluster"
for sub in bin dev log run scratch spool state; do
    rm -rf "${DIR:?}/$sub"
    mkdir "$DIR/$sub"
done

# Ports: below the ephemeral ones, else an outgoing connection takes one now and then.
last=$((port + nodes))
read -r ephemeral _ </proc/sys/net/ipv4/ip_local_port_range || ephemeral=32768
((last < ephemeral)) || die "ports $port-$last reach into the ephemeral range, which starts at $ephemeral"
for ((p = port; p <= last; p++)); do
    if (: <>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then die "port $p is taken"; fi
done

# Slurm's daemons look at the name they were started under, so they must not be run as slurmd-wlm; and where
# slurm-wlm-emulator is installed, /usr/sbin/slurmd is not the real one.
for daemon in slurmctld slurmd slurmstepd; do
    program=$(command -v "$daemon-wlm" || command -v "$daemon") || die "$daemon is not installed (README.md lists the packages)"
    ln -s "$program" "$DIR/bin/$daemon"
done
for program in munged munge sinfo; do
    command -v "$program" >/dev/null || die "$program is not installed (README.md lists the packages)"
done

# A GPU is any character device whose name ends in its number; no node is made in /dev.
for ((i = 0; i < gpus; i++)); do ln -s /dev/null "$DIR/dev/nvidia$i"; done
for ((i = 1; i <= nodes; i++)); do mkdir "$DIR/spool/n$i" "$DIR/scratch/n$i"; done
chmod 755 "$DIR" "$DIR"/{bin,dev,log,run,scratch,spool}
chmod 1777 "$DIR"/scratch/n*

gres=
((gpus == 0)) || gres=Gres=gpu:$model:$gpus
for name in slurm.conf gres.conf cgroup.conf; do
    sed -e "s|@DIR@|$DIR|g; s|@HOST@|$(hostname -s)|g; s|@USER@|$(id -un)|g; s|@PORT@|$port|g" \
        -e "s|@FIRST@|$((port + 1))|g; s|@LAST@|$last|g; s|@NODES@|$nodes|g; s|@CPUS@|$cpus|g" \
        -e "s|@GRES@|$gres|g; s|@MODEL@|$model|g; s|@GPUS@|$gpus|g; s|@GPUS_RANGE@|0-$((gpus - 1))|g" \
        "$templates/$name" >"$DIR/$name"
done
((gpus > 0)) || : >"$DIR/gres.conf"
for file in "${extra[@]}"; do
    # What is set there replaces what the template says; Slurm would complain of the double.
    while IFS='=' read -r key _ || [[ -n $key ]]; do
        [[ ! $key =~ ^[A-Za-z]+$ || $key == PartitionName ]] || sed -i "/^$key=/d" "$DIR/slurm.conf"
    done <"$file"
    { cat "$file"; echo; } >>"$DIR/slurm.conf"
done
: >"$DIR/plugstack.conf"
((${#spank[@]} == 0)) || printf '%s\n' "${spank[@]}" >"$DIR/plugstack.conf"

fail() {
    say "$@"
    tail -n 5 "$DIR"/log/slurmctld.log "$DIR/log/slurmd.n1.log" >&2 2>/dev/null || true
    sleep 0.5
    "$here/down.sh" "$DIR" || true
    exit 1
}

# A munged of our own: key, socket and log in DIR. --force: the directories above DIR may belong to any user.
(umask 077 && head -c 128 /dev/urandom >"$DIR/run/munge.key")
munged --force --socket="$DIR/run/munge.socket" --key-file="$DIR/run/munge.key" --seed-file="$DIR/run/munge.seed" \
    --pid-file="$DIR/run/munged.pid" --log-file="$DIR/log/munged.log" 2>"$DIR/log/munged.err" ||
    fail "munged did not start: $(cat "$DIR/log/munged.err")"

export SLURM_CONF=$DIR/slurm.conf
"$DIR/bin/slurmctld" -f "$SLURM_CONF" || fail "slurmctld did not start"
for ((i = 1; i <= nodes; i++)); do
    # The variable is for plugins that slurmd loads: Slurm sets it only for slurmstepd and the prologs.
    SLURMD_NODENAME=n$i "$DIR/bin/slurmd" -N "n$i" -f "$SLURM_CONF" -d "$DIR/bin/slurmstepd" || fail "slurmd n$i did not start"
done

deadline=$((SECONDS + wait))
until idle=$(timeout 10 sinfo -h -t idle -o %D 2>/dev/null) && [[ $idle == "$nodes" ]]; do
    ((SECONDS < deadline)) || fail "${idle:-0} of $nodes nodes are idle after $wait s; logs are in $DIR/log"
    sleep 0.1
done
echo "export SLURM_CONF=$SLURM_CONF"
