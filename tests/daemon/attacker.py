#!/usr/bin/env python3
"""Clients that attack lulld, each as the issues F42 and F48 describe, until killed.

Run as: attacker.py KIND UUID. LULL_RUNTIME_DIR names the daemon; a line on standard output says that the attack has
begun. SPDX-License-Identifier: Apache-2.0
"""

import encodings.idna  # noqa: F401 (not loaded later, by another user)
import os
import resource
import select
import socket
import struct
import sys
import threading
import time

HELLO, LEASE, RELEASE, STATUS, RENEW = 1, 3, 6, 7, 5
ALL_SLOTS = 0x7fffffff


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.path.join(os.environ["LULL_RUNTIME_DIR"], "lulld.sock"))
    return connection


def message(kind, body=b"", sequence=1):
    return struct.pack("<4sHHII", b"LULL", 6, kind, len(body), sequence) + body


def greet():
    connection = connect()
    connection.send(message(HELLO, struct.pack("<I", os.getpid())))
    connection.recv(512)
    return connection


def lease_message(uuid):
    return message(LEASE, uuid.encode().ljust(96, b"\0") + struct.pack("<IIII", 600, 1200, 0, 0))


def begin():
    print("attacking", flush=True)


def lingering():
    """A TCP socket whose last close sleeps: data waits for a peer that does not read."""
    listener = socket.create_server(("127.0.0.1", 0))
    writer = socket.create_connection(listener.getsockname())
    reader, _ = listener.accept()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
    writer.setblocking(False)
    try:
        while True:
            writer.send(bytes(65536))
    except BlockingIOError:
        pass
    return writer, reader


def linger(_uuid):
    """F42: passes such sockets, and closes its own copies."""
    readers = []
    begin()
    while True:
        try:
            connection = greet()
            writer, reader = lingering()
            readers.append(reader)
            # The daemon has to be the last who closes it, so it is given something to do before.
            for _ in range(9):
                connection.send(message(STATUS, struct.pack("<I", 0)))
            socket.send_fds(connection, [message(RENEW)], [writer.fileno()])
        except (PermissionError, ConnectionError):
            pass
        threading.Thread(target=writer.close, daemon=True).start()
        time.sleep(0.5)


def connects(_uuid):
    """Connects beyond the quota, as fast as possible."""
    held = [connect() for _ in range(64)]
    begin()
    while held:
        try:
            connect().close()
        except OSError:
            pass


def refused(uuid):
    """Asks for leases that others have, as fast as possible."""
    begin()
    while True:
        try:
            connection = greet()
            while True:
                connection.send(lease_message(uuid))
                connection.recv(512)
        except ConnectionError:
            pass


def silent(_uuid):
    """Opens connections and says nothing."""
    held = []
    begin()
    while True:
        try:
            held.append(connect())
        except OSError:
            time.sleep(0.01)
        held = held[-200:]


def malformed(_uuid):
    """Sends what is no message."""
    begin()
    while True:
        try:
            connection = connect()
            connection.send(b"nonsense" * 8)
            connection.close()
        except OSError:
            pass


def questions(_uuid):
    """Asks for the state of a GPU, as fast as possible."""
    connection = greet()
    begin()
    while True:
        connection.send(message(STATUS, struct.pack("<I", 0)))
        connection.recv(512)


def take_lease(uuid):
    """A lease's connection and doorbell; waits where the daemon asks for it."""
    while True:
        try:
            connection = greet()
            connection.send(lease_message(uuid))
            answer, fds, _, _ = socket.recv_fds(connection, 512, 4)
            if answer[6] == 4:
                return connection, fds[1]
        except (ConnectionError, IndexError):
            pass
        time.sleep(0.1)


def ring(uuid):
    """Rings its doorbell in a loop, while it has the lease."""
    one = struct.pack("=Q", 1)
    begun = False
    while True:
        connection, doorbell = take_lease(uuid)
        if not begun:
            begin()
            begun = True
        ended = False
        while not ended:
            for _ in range(1000):
                os.write(doorbell, one)
            connection.setblocking(False)
            try:
                connection.send(message(RENEW))
                ended = connection.recv(512) == b""
            except BlockingIOError:
                pass
            except OSError:
                ended = True
        os.close(doorbell)


def ring_released(uuid):
    """Rings its doorbell in a loop, after it has given the lease back."""
    connection, doorbell = take_lease(uuid)
    connection.send(message(RELEASE, struct.pack("<I", ALL_SLOTS)))
    select.select([connection], [], [], 5)
    begin()
    one = struct.pack("=Q", 1)
    while True:
        os.write(doorbell, one)


ATTACKS = {"linger": linger, "connects": connects, "refused": refused, "silent": silent, "malformed": malformed,
           "questions": questions, "ring": ring, "ring_released": ring_released}

if __name__ == "__main__":
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    if os.geteuid() == 0:  # the interpreter may be out of reach for others, so that the user changes here
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    ATTACKS[sys.argv[1]](sys.argv[2])
