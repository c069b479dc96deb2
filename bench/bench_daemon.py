"""Attacks lulld as issues F42 and F48 describe, and reports the effect on an honest client, on root and on a processor:
request to driver call beside the same without an attack, `lull restore` by root, the daemon's share of a core, lines
logged per second. Then 1000 clients send heartbeats in an open loop.
Run as root: lull emulate SPEC -- bench_daemon.py BUILD SOURCE [SECONDS [ATTACK...]]. SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
import time

BUILD, SOURCE = sys.argv[1:3]
LOAD_S = sys.argv[3] if len(sys.argv) > 3 else "60"
LULLD, LULL = os.path.join(BUILD, "src/daemon/lulld"), os.path.join(BUILD, "src/cli/lull")
TOOL, LOAD = os.path.join(BUILD, "tests/daemon/daemon_tool"), os.path.join(BUILD, "bench/daemon_load")
ATTACKER = os.path.join(SOURCE, "tests/daemon/attacker.py")
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}
ATTACKS = {"none": None, "linger": 1, "connects": 1, "refused": 0, "silent": 1, "malformed": 1, "questions": 1,
           "ring": 1, "ring_released": 1, "stairs": 1}
RESTORES = 200


def start_daemon(log):
    ready, write = os.pipe()
    daemon = subprocess.Popen([LULLD, "--allow-all", "--ready-fd", str(write)], pass_fds=[write], stderr=log)
    os.close(write)
    os.read(ready, 1)
    os.close(ready)
    return daemon


def attack(kind, uuid):
    if kind == "none":
        return None
    if kind == "stairs":
        return subprocess.Popen([TOOL, kind, uuid], **NOBODY)
    attacker = subprocess.Popen([sys.executable, ATTACKER, kind, uuid], stdout=subprocess.PIPE, text=True)
    attacker.stdout.readline()
    return attacker


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        words = stat.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def restores():
    done = [subprocess.run([LULL, "restore"], capture_output=True, text=True, check=False) for _ in range(RESTORES)]
    for failed in (run for run in done if run.returncode != 0):
        print(failed.stderr.strip())
    return sum(run.returncode == 0 for run in done)


def row(kind, uuids):
    with tempfile.TemporaryFile("w+") as log:
        daemon = start_daemon(log)
        # The honest client's GPU is leased first, because one attack wants that very one.
        client = subprocess.Popen([TOOL, "latency", "daemon", uuids[0]], stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)
        attacker = attack(kind, uuids[ATTACKS[kind] or 0])
        begin, before = time.monotonic(), cpu_s(daemon.pid)
        text = client.communicate()[0]
        seconds = time.monotonic() - begin
        share = (cpu_s(daemon.pid) - before) / seconds
        restored = restores()
        alive = attacker is None or attacker.poll() is None
        if attacker is not None:
            attacker.kill()
            attacker.wait()
        daemon.terminate()
        daemon.wait()
        log.seek(0)
        lines = len(log.readlines())
    times = {name: int(value) / 1000 for name, value in (word.split("=") for word in text.split())}
    kept = "kept" if client.returncode == 0 else "LOST"
    if not times:
        times = dict.fromkeys(("raising_p50_us", "raising_p99_us", "lowering_p50_us", "lowering_p99_us",
                               "call_p50_us", "call_p99_us"), float("nan"))
    print(f"{kind:14} {times['raising_p50_us']:7.2f} {times['raising_p99_us']:7.2f} {times['lowering_p50_us']:7.2f} "
          f"{times['lowering_p99_us']:7.2f} {times['call_p50_us']:7.2f} {times['call_p99_us']:7.2f}  {kept}  "
          f"{restored:3}/{RESTORES} {share * 100:6.1f} % {lines:7}{'' if alive else '  (the attack ended)'}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(directory, "run")
        gpus = json.loads(subprocess.run([LULL, "gpus", "--json"], capture_output=True, check=True).stdout)["gpus"]
        print("in ms: request to driver call, the call itself; lease; restores by root; daemon's share of a core; lines")
        print(f"{'attack':14} {'raise50':>7} {'raise99':>7} {'lower50':>7} {'lower99':>7} {'call50':>7} {'call99':>7}")
        for kind in (kind for kind in ATTACKS if kind in (sys.argv[4:] or ATTACKS)):
            row(kind, [gpu["uuid"] for gpu in gpus])
        with tempfile.TemporaryFile("w+") as log:
            daemon = start_daemon(log)
            begin, before = time.monotonic(), cpu_s(daemon.pid)
            subprocess.run([LOAD, os.environ["LULL_RUNTIME_DIR"], LOAD_S, "1000", "20000"], check=False)
            share = (cpu_s(daemon.pid) - before) / (time.monotonic() - begin)
            print(f"lulld's share of a core: {share * 100:.1f} %")
            with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
                print(next(line for line in status if line.startswith("VmHWM")).strip(), "(bound: 16 MB)")
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
