#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads metrics over HTTP from servers that answer, lag, fail, restart and misbehave (metrics_fetch.h).

usage: test_metrics_fetch.py READ_METRICS, the program of read_metrics.c"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import host

READER = sys.argv.pop(1)
LIMIT_S = 10.0


def page(tokens, running=2, more=""):
    return (f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\"}} {running}\n"
            f"vllm:num_requests_waiting 0\nvllm:generation_tokens_total {tokens}\n{more}").encode()


def answer(body, status="200 OK", headers=()):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body):
    half = len(body) // 2
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


class Server:
    """Answers each request by reply(number of the request): bytes, a list of bytes and pauses in seconds, or None, which
    closes the connection. It counts connections, requests, and how many were under way at once."""

    def __init__(self, reply, family=socket.AF_INET, address=("127.0.0.1", 0)):
        self.reply = reply
        self.connections = self.requests = self.open = self.most_open = 0
        self.times, self.heads = [], []
        self.lock = threading.Lock()
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        if family != socket.AF_UNIX:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen()
        self.peers = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def port(self):
        return self.listener.getsockname()[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/metrics"

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.peers.append(peer)
            threading.Thread(target=self.serve, args=[peer], daemon=True).start()

    def serve(self, peer):
        with peer:
            try:
                while self.serve_one(peer):
                    pass
            except OSError:
                pass

    def serve_one(self, peer):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = peer.recv(4096)
            if not more:
                return False
            head += more
        with self.lock:
            number = self.requests
            self.requests += 1
            self.times.append(time.monotonic())
            self.heads.append(head)
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            parts = self.reply(number)
            for part in parts if isinstance(parts, list) else [parts]:
                if part is None:
                    return False
                if isinstance(part, bytes):
                    peer.sendall(part)
                else:
                    time.sleep(part)
        finally:
            with self.lock:
                self.open -= 1
        return True

    def close(self):
        """As if the server's process ended."""
        self.listener.shutdown(socket.SHUT_RDWR) if self.listener.family != socket.AF_UNIX else None
        self.listener.close()
        with self.lock:
            for peer in self.peers:
                try:
                    peer.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Reader:
    """The program, and what it printed."""

    def __init__(self, address, period_ms=20, names="", env=None, start_ms=0, only_parks=False):
        self.lines = []
        self.process = subprocess.Popen([READER, address, str(period_ms), names, str(start_ms), str(int(only_parks))], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.thread = threading.Thread(target=self.collect)
        self.thread.start()

    def collect(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def readings(self):
        return [line for line in list(self.lines) if "running" in line]

    def messages(self):
        """Without those that pages are slow, which they are on a busy host."""
        return [line["message"] for line in list(self.lines) if "message" in line and ": a page takes " not in line["message"]]

    def slow_messages(self):
        return [line["message"] for line in list(self.lines) if "message" in line and ": a page takes " in line["message"]]

    def stop(self):
        """Ends the program; returns its final state."""
        self.process.stdin.close()
        self.thread.join()
        self.process.stdout.close()
        status = self.process.wait()
        assert status == 0, status
        return self.lines[-1]


class Fetch(unittest.TestCase):
    def wait(self, condition, what):
        self.assertIsNotNone(host.wait_for(condition, LIMIT_S), what)

    def read(self, server, **options):
        reader = Reader(options.pop("address", server.url), **options)
        self.addCleanup(lambda: reader.process.poll() is None and reader.stop())
        self.addCleanup(server.close)
        return reader

    def wait_message(self, reader, words):
        self.wait(lambda: any(words in message for message in reader.messages()), f"{words}: {reader.lines[-3:]}")
        found = [message for message in reader.messages() if words in message]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_pages(self):
        server = Server(lambda number: (chunked if number % 2 else answer)(page(number)))
        reader = self.read(server, period_ms=100)
        self.wait(lambda: len(reader.readings()) >= 15, "no readings")
        state = reader.stop()
        self.assertEqual((state["phase"], state["engine"], state["failures"]), ("reading", "vLLM", 0))
        self.assertEqual(state["sentence"], f"{server.url}: reads the metrics of vLLM each {state['distance_ms']:.0f} ms")
        self.assertEqual(server.connections, 1)
        self.assertEqual(server.most_open, 1)
        self.assertEqual(reader.messages(), [])
        tokens = [reading["tokens"] for reading in reader.readings()]
        self.assertEqual(tokens, sorted(tokens))
        self.assertFalse(any(reading["restarted"] for reading in reader.readings()))
        self.assertIn(b"GET /metrics HTTP/1.1\r\n", server.heads[0])
        self.assertIn(b"Accept: text/plain;version=0.0.4\r\n", server.heads[0])

    def test_addresses(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "server.sock")
            servers = [(Server(lambda number: answer(page(number)), socket.AF_UNIX, path), f"unix:{path}:/stats")]
            try:
                server = Server(lambda number: answer(page(number)), socket.AF_INET6, ("::1", 0))
                servers.append((server, f"http://[::1]:{server.port}/stats"))
            except OSError:
                print("no IPv6 here", file=sys.stderr)
            for server, address in servers:
                reader = self.read(server, address=address)
                self.wait(reader.readings, address)
                reader.stop()
                self.assertIn(b"GET /stats HTTP/1.1\r\n", server.heads[0])

    def test_environment(self):
        """A proxy that the environment names is not used."""
        server = Server(lambda number: answer(page(number)))
        reader = self.read(server, env={**os.environ, "http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"})
        self.wait(reader.readings, "no readings")

    def test_start_and_restart(self):
        """The server starts later than its reader, ends, and comes back with counters that begin again."""
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        address = holder.getsockname()
        reader = Reader(f"http://127.0.0.1:{address[1]}/metrics")
        self.addCleanup(lambda: reader.process.poll() is None and reader.stop())
        self.assertIn("no server answers there; is it running, and is the port right?; until a page comes, idle GPUs are parked and "
                      "nothing else is lowered",
                      self.wait_message(reader, "no server answers"))
        holder.close()
        server = Server(lambda number: answer(page(1000 + number)), address=address)
        self.wait(reader.readings, "no readings")
        self.wait_message(reader, "the server answers, after ")
        server.close()
        self.wait_message(reader, "no server answers")
        server = Server(lambda number: answer(page(number)), address=address)
        self.addCleanup(server.close)
        self.wait(lambda: reader.readings()[-1]["restarted"] or any(r["restarted"] for r in reader.readings()), "no restart")
        self.assertIn("counting begins again", self.wait_message(reader, "fell from"))
        self.assertEqual(reader.stop()["phase"], "reading")

    def test_start_is_awaited(self):
        """A server that is being started may not answer, or answer 503; afterwards that is reported."""
        holder = socket.socket()
        holder.bind(("127.0.0.1", 0))
        address = holder.getsockname()
        reader = Reader(f"http://127.0.0.1:{address[1]}/metrics", start_ms=3600e3)
        self.addCleanup(reader.stop)
        time.sleep(0.3)
        holder.close()
        server = Server(lambda number: answer(page(number)) if number > 3 else answer(b"", "503 Service Unavailable"), address=address)
        self.wait(reader.readings, "no readings")
        self.assertEqual(reader.messages(), [])
        server.close()
        self.wait_message(reader, "no server answers")
        begin = time.monotonic()
        reader = Reader("http://127.0.0.1:9/metrics", start_ms=300, only_parks=True)
        self.addCleanup(reader.stop)
        self.assertIn("without metrics only the GPUs' own readings show work", self.wait_message(reader, "no server answers"))
        self.assertGreater(time.monotonic() - begin, 0.25)

    def test_slow(self):
        """Pages that take longer than the period are waited for, and read less often."""
        server = Server(lambda number: [0.06, answer(page(number))])
        reader = self.read(server)
        self.wait(lambda: len(reader.readings()) >= 12, "no readings")
        self.wait(reader.slow_messages, "no message")
        self.assertRegex(reader.slow_messages()[0],
                         r"a page takes \d+ ms, more than a fifth of the period of 20 ms; Lull reads one each \d+ ms, so that the "
                         "server loses little time")
        state = reader.stop()
        self.assertEqual(server.most_open, 1)
        self.assertGreaterEqual(state["distance_ms"], 5 * 60)
        gaps = [b - a for a, b in zip(server.times, server.times[1:])]
        self.assertGreater(sorted(gaps)[len(gaps) // 2], 0.2)

    def test_one_slow_page(self):
        """One slow page among fast ones does not lengthen the distance of pages."""
        server = Server(lambda number: [0.15, answer(page(number))] if number == 5 else answer(page(number)))
        reader = self.read(server, period_ms=100)
        self.wait(lambda: len(reader.readings()) >= 9, "no readings")
        self.assertLess(reader.stop()["distance_ms"], 5 * 150)

    def test_never_answers(self):
        server = Server(lambda number: [3600.0])
        reader = self.read(server)
        self.wait_message(reader, "no page within ")
        self.wait(lambda: server.requests >= 6, "no further requests")
        begin = time.monotonic()
        state = reader.stop()
        self.assertLess(time.monotonic() - begin, 1.0 * host.slowness())
        self.assertEqual((state["phase"], state["pages"]), ("connecting", 0))
        self.assertEqual(state["distance_ms"], 10 * 20)

    def test_half_answers(self):
        whole = answer(page(5))
        for reply, words in (
                ([whole[:-20], None], "the answer ended early"),
                ([b"HTTP/1.1 200 OK\r\n\r\n", None], "the page is empty"),
                ([None], "the answer ended early"),
                ([chunked(page(5))[:-30], None], "the answer ended early"),
                ([b"HTTP/1.0 200 OK\r\n\r\n" + page(5)[:-4], None], "the page ends inside a line"),
                ([b"nonsense\r\n\r\n", None], "without metrics the clock stays the highest")):
            with self.subTest(reply=reply):
                server = Server(lambda number, reply=reply: reply if number > 5 else answer(page(number)))
                reader = self.read(server)
                self.wait(reader.readings, "no readings")
                self.wait_message(reader, words)
                self.assertEqual(reader.stop()["phase"], "failing")

    def test_refusals(self):
        for status, headers, words in (
                ("500 Internal Server Error", (), "the server answers HTTP 500; until"),
                ("503 Service Unavailable", (), "the server answers HTTP 503; until"),
                ("404 Not Found", (), "there is no page there (HTTP 404): SGLang needs --enable-metrics"),
                ("401 Unauthorized", (), "the server refuses (HTTP 401): Lull sends no credentials"),
                ("307 Temporary Redirect", ("Location: /metrics/",), "the page is elsewhere (HTTP 307): give the address http://127.0.0.1:"),
                ("302 Found", ("Location: https://node/metrics",), "give the address https://node/metrics")):
            with self.subTest(status=status):
                server = Server(lambda number, s=status, h=headers: answer(page(number), s, h))
                reader = self.read(server)
                self.wait_message(reader, words)
                reader.stop()
                self.assertEqual(reader.readings(), [])
                self.assertTrue(all(b"GET /metrics HTTP" in head for head in server.heads))

    def test_errors_between(self):
        """One page in three fails: readings continue, and the failure is reported once."""
        server = Server(lambda number: answer(b"", "500 Error") if number % 3 == 1 else answer(page(number)))
        reader = self.read(server)
        self.wait(lambda: len(reader.readings()) >= 20, "no readings")
        self.wait_message(reader, "HTTP 500")
        self.assertLessEqual(len(reader.messages()), 2, reader.messages())

    def test_huge(self):
        line = b"x{a=\"" + b"y" * 1000 + b"\"} 1\n"
        server = Server(lambda number: answer(page(number) + line * 9000))
        reader = self.read(server, period_ms=100)
        self.wait_message(reader, "the page is larger than 8 MiB")
        reader.stop()
        server = Server(lambda number: answer(page(number) + line * 3000))
        reader = self.read(server, period_ms=100)
        self.wait(lambda: len(reader.readings()) >= 3, "no readings")

    def test_any_bytes(self):
        """Bytes that are not UTF-8, in a label and as a line."""
        more = b"x{a=\"\xff\xfe\"} 1\n\xff\xfe 1\n"
        server = Server(lambda number: answer(page(number) + more))
        reader = self.read(server)
        self.wait(lambda: len(reader.readings()) >= 3, "no readings")
        self.assertIn("invalid lines on the page: 1; the first is line 6 (no name)", self.wait_message(reader, "invalid lines"))

    def test_lag(self):
        """A cache in between serves a page for 15 s, which does not change meanwhile."""
        server = Server(lambda number: answer(page(number if number < 50 else 50)))
        reader = self.read(server)
        self.wait(reader.readings, "no readings")
        self.assertIn("it did not change for over 3 s although requests run", self.wait_message(reader, "the page is old"))
        state = reader.stop()
        self.assertEqual(state["phase"], "lagging")
        self.assertEqual(state["sentence"], f"{server.url}: the pages of vLLM are old; without metrics the clock stays the highest")

    def test_restart_behind_lag(self):
        """A restart that a page showed while pages counted as old is in the next reading."""
        begin = time.monotonic()

        def reply(number):
            passed_s = time.monotonic() - begin
            return answer(page(1000 if passed_s < 5.0 else number))

        reader = self.read(Server(reply))
        self.wait_message(reader, "the page is old")
        self.wait(lambda: any(reading["tokens"] != 1000 for reading in reader.readings()), "no readings after the lag")
        after = [reading for reading in reader.readings() if reading["tokens"] != 1000]
        self.assertTrue(after[0]["restarted"])
        self.assertFalse(any(reading["restarted"] for reading in after[1:]))

    def test_renamed(self):
        """A new version of the server has other names, and then none that Lull knows."""
        def reply(number):
            text = page(number)
            return answer(text if number < 20 else text.replace(b"generation", b"generated") if number < 40 else b"other 1\n")

        reader = self.read(Server(reply))
        self.wait_message(reader, "vllm:generation_tokens_total vanished from the page of vLLM")
        self.wait_message(reader, "all metrics of vLLM vanished from the page")

    def test_unknown(self):
        for body, words in ((b"go_threads 1\n", "the page has 1 samples, the first of go_threads, but no metric that Lull knows"),
                            (b"[{}]", "the page is JSON"), (b"<html>", "the page is HTML"), (b"", "the page is empty")):
            with self.subTest(body=body):
                reader = self.read(Server(lambda number, body=body: answer(body)))
                self.wait_message(reader, words)
                reader.stop()

    def test_no_host(self):
        reader = Reader("http://none.invalid:8000")
        self.addCleanup(lambda: reader.process.poll() is None and reader.stop())
        self.wait(reader.messages, "no message")
        self.assertRegex(reader.messages()[0], "the host is unknown; is the address right[?]|no page within 200 ms")

    def test_no_library(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"):
                with open(os.path.join(directory, name), "w", encoding="ascii"):
                    pass
            done = subprocess.run([READER, "127.0.0.1:1", "20", "", "0", "0"], env={**os.environ, "LD_LIBRARY_PATH": directory},
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "metrics are read with libcurl, which is not installed here; install it (Debian: libcurl4)\n")

    def test_own_names(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "names.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"engines": [{"engine": "own", "metrics": [{"quantity": "running", "name": "my_running"}]}]}, file)
            reader = self.read(Server(lambda number: answer(b"my_running 5\n")), names=path)
            self.wait(reader.readings, "no readings")
            self.assertEqual(reader.stop()["engine"], "own")
            self.assertEqual(reader.readings()[0]["running"], 5.0)

    def test_refused_arguments(self):
        for address, names, words in (("https://127.0.0.1/metrics", "", "local http port"), ("127.0.0.1", "", "not an address"),
                                      ("127.0.0.1:1", "/nonexistent", "/nonexistent")):
            done = subprocess.run([READER, address, "20", names, "0", "0"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_real_client(self):
        """A page of prometheus_client, the library of vLLM and SGLang, in both formats."""
        host.find_packages()
        try:
            import prometheus_client
            from prometheus_client import openmetrics
        except ImportError:
            self.skipTest("prometheus_client is not installed")
        import prometheus_client.openmetrics.exposition
        registry = prometheus_client.CollectorRegistry()
        labels = {"model_name": "a \"quoted\" \\ name\n", "engine": "0"}
        running = prometheus_client.Gauge("vllm:num_requests_running", "running", labels, registry=registry).labels(**labels)
        tokens = prometheus_client.Counter("vllm:generation_tokens", "tokens", labels, registry=registry).labels(**labels)
        ttft = prometheus_client.Histogram("vllm:time_to_first_token_seconds", "ttft", labels, registry=registry).labels(**labels)
        running.set(3)

        def reply(number):
            tokens.inc(7)
            ttft.observe(0.1)
            writers = [prometheus_client.generate_latest, openmetrics.exposition.generate_latest]
            return answer(writers[number % 2](registry))

        reader = self.read(Server(reply))
        self.wait(lambda: len(reader.readings()) >= 10, "no readings")
        reader.stop()
        self.assertEqual(reader.messages(), [])
        self.assertTrue(all(reading["running"] == 3.0 and reading["tokens"] % 7 == 0 for reading in reader.readings()))
        self.assertFalse(any(reading["restarted"] for reading in reader.readings()))


def has_library():
    done = subprocess.run([READER, "127.0.0.1:9", "20", "", "0", "0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "libcurl" not in done.stderr


if __name__ == "__main__":
    if not has_library():
        print("skipped: libcurl is not installed")
        sys.exit(77)
    unittest.main()
