"""Clients that hold the connections of an HTTP server by a byte of a request now and then.
SPDX-License-Identifier: Apache-2.0"""
import socket
import threading
import time


class SlowClients:
    """Opens connections, `heads` in turn, and keeps them from falling silent. Closed ones are opened again."""

    def __init__(self, port, count, heads, is_lasting=True):
        self.place = ("127.0.0.1", port)
        self.heads = heads
        self.is_lasting = is_lasting
        self.has_ended = threading.Event()
        self.connections = [self.open(i) for i in range(count)]
        self.thread = threading.Thread(target=self.drip, daemon=True)
        self.thread.start()

    def open(self, index):
        connection = socket.create_connection(self.place, timeout=5)
        connection.sendall(self.heads[index % len(self.heads)])
        connection.setblocking(False)
        return connection

    def is_open(self, connection):
        try:
            connection.send(b"a")
            return connection.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def drip(self):
        while not self.has_ended.wait(0.5):
            for i, connection in enumerate(self.connections):
                if self.is_open(connection) or not self.is_lasting:
                    continue
                connection.close()
                try:
                    self.connections[i] = self.open(i)
                except OSError:
                    pass

    def wait_closed(self, limit_s):
        """Seconds until the server has closed all of them; None: it has not."""
        began = time.monotonic()
        while time.monotonic() - began < limit_s:
            if not any(self.is_open(connection) for connection in self.connections):
                return time.monotonic() - began
            time.sleep(0.2)
        return None

    def end(self):
        self.has_ended.set()
        self.thread.join()
        for connection in self.connections:
            connection.close()
