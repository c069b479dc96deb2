"""Measures what `lull serve` costs: its share of a core on a node of 64 GPUs without viewers, with one of the JSON stream at 5 Hz,
and with 20, and with 20 of the live page; each beside the bytes that a viewer is sent.

Run as: lull emulate 64xMODEL -- bench_serve.py BUILD [SECONDS]. SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import os
import socket
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import serve_case  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
CASES = [("nobody", 0, ""), ("one JSON stream", 1, "?as=json"), ("20 JSON streams", 20, "?as=json"), ("one live page", 1, "?as=html"),
         ("20 live pages", 20, "?as=html")]


def cpu_s(pid):
    """The time that a process's threads have run, to the nanosecond: ticks are too coarse."""
    total_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as stat:
            total_ns += int(stat.read().split()[0])
    return total_ns * 1e-9


def read_all(connection, counted):
    """Reads a stream to its end, which may come in the midst of a frame; counts its bytes and events."""
    with contextlib.suppress(ConnectionResetError):
        data = connection.recv(65536)
        while data:
            counted[0] += len(data)
            counted[1] += data.count(b"event: ")
            data = connection.recv(65536)


def measure(serve, viewers, query):
    counted, threads, connections = [0, 0], [], [serve.open_stream(query) for _ in range(viewers)]
    for connection in connections:
        threads.append(threading.Thread(target=read_all, args=(connection, counted)))
        threads[-1].start()
    time.sleep(2.0)
    begin, before, counted[:] = time.monotonic(), cpu_s(serve.process.pid), [0, 0]
    time.sleep(SECONDS)
    passed = time.monotonic() - begin
    share, size, events = (cpu_s(serve.process.pid) - before) / passed, *counted
    for connection in connections:
        connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    return share, size / passed / max(viewers, 1), events / passed / max(viewers, 1)


def main():
    node = serve_case.Node(os.path.join(BUILD, "src/cli/lull"), os.path.join(BUILD, "src/daemon/lulld"),
                           os.path.join(BUILD, "tests/cli/live_run"))
    node.publish(*((gpu, 1, 1000) for gpu in range(len(node.gpus))))
    serve = node.serve()
    serve.json("/api/v1/node")
    print(f"{len(node.gpus)} GPUs, one run on all of them; {'share of a core':>16} {'kB/s a viewer':>14} {'events/s':>9}")
    for name, viewers, query in CASES:
        share, rate, events = measure(serve, viewers, query)
        print(f"{name:36} {share * 100:>14.2f} % {rate / 1e3:>14.1f} {events:>9.2f}", flush=True)
    node.close()


if __name__ == "__main__":
    main()
