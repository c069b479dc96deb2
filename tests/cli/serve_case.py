"""A node with lulld and `lull serve`, within an emulated node, and a client of its own. Used by tests and bench/.
SPDX-License-Identifier: Apache-2.0"""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import host  # noqa: E402

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Serve:
    """A `lull serve` on a port of its own."""

    def __init__(self, lull, *options, host_name="127.0.0.1", **process):
        self.process = subprocess.Popen([lull, "serve", "--port", "0", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **process)
        self.address = self.process.stdout.readline().strip()
        assert self.address, "lull serve did not start"
        self.host, self.port = host_name, int(self.address.rstrip("/").rsplit(":", 1)[1])

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def ask(self, path, headers=None, method="GET"):
        """Status, headers and body."""
        connection = self.connect()
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body.decode("utf-8")

    def open_stream(self, query=""):
        """A connection on which a stream has been asked for."""
        connection = socket.create_connection((self.host, self.port), timeout=60)
        connection.sendall(f"GET /api/v1/stream{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection

    def json(self, path):
        status, _, body = self.ask(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def metrics(self):
        return parse(self.ask("/metrics")[2])

    def stop(self):
        self.process.terminate()
        self.process.stdout.close()
        return self.process.wait(timeout=60)


def parse(text):
    """Samples of the text form: {(name, labels...): value}."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        key = (name, *sorted((label, re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), worth))
                             for label, worth in LABEL.findall(labels or "")))
        assert key not in samples, f"twice: {line}"
        samples[key] = float(value)
    return samples


def find(samples, name, **labels):
    """The samples of a family that carry these labels, as (labels, value)."""
    return [(dict(key[1:]), value) for key, value in samples.items()
            if key[0] == name and all(dict(key[1:]).get(label) == worth for label, worth in labels.items())]


class Node:
    """lulld in a runtime directory of its own; every server and governor that a test starts ends with it."""

    def __init__(self, lull, lulld, live_run):
        self.lull, self.live_run = lull, live_run
        self.directory = tempfile.TemporaryDirectory(prefix="lull-")
        os.environ["LULL_RUNTIME_DIR"] = os.path.join(self.directory.name, "run")
        self.ends = []
        self.daemon = host.start_lulld(lambda *words, **options: subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options), lulld, "--allow-all")
        self.gpus = json.loads(subprocess.run([lull, "gpus", "--json"], capture_output=True, check=True).stdout)["gpus"]

    def serve(self, *options, **more):
        serve = Serve(self.lull, *options, **more)
        self.ends.append(serve.stop)
        return serve

    def publish(self, *gpus, **options):
        """A governor that publishes a run on GPUs (index, ranks, joules); returns its process and the run's name."""
        process = subprocess.Popen([self.live_run, *(f"{self.gpus[index]['uuid']}:{index}:{ranks}:{joules}"
                                                     for index, ranks, joules in gpus)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        begin = f"lull-live-{int(process.stdout.readline())}-managed-"
        name = next(name for name in os.listdir("/dev/shm") if name.startswith(begin))
        self.ends.append(lambda: end(process))
        return process, name

    def close(self):
        for stop in reversed(self.ends):
            stop()
        self.daemon.terminate()
        self.daemon.wait(timeout=60)
        host.remove(self.directory.name)


def end(process):
    """Ends a governor as at the end of its job."""
    if process.poll() is None:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()
