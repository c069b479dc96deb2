"""A file system that never answers: FUSE, spoken by a thread here, in three kinds. One takes no request, not even the first; another
takes all and answers none, so that not even SIGKILL ends who waits; the third keeps files in memory, and answers all but some
operations from hang() on. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import errno
import os
import stat
import struct
import threading

LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RENAME, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, FUSE_INIT = (
    1, 2, 3, 4, 9, 10, 12, 14, 15, 16, 17, 18, 20, 25, 26)
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, ACCESS, CREATE, INTERRUPT, BATCH_FORGET, RENAME2 = 27, 28, 29, 30, 34, 35, 36, 42, 45
OPERATIONS = {"open": {OPEN, CREATE}, "read": {READ}, "write": {WRITE}, "fsync": {FSYNC, FSYNCDIR}, "rename": {RENAME, RENAME2},
              "close": {FLUSH}, "list": {READDIR}, "make": {MKDIR}}
HEADER = struct.Struct("<IIQQIIII")
LIBC = ctypes.CDLL(None, use_errno=True)
DETACH = 2
HAS_SIZE = 1 << 3


class HungFiles:
    """Mounted at a directory from mount() to close(), which lets everyone go. OSError: it cannot be mounted here."""

    def __init__(self, takes_requests):
        self.takes_requests, self.device, self.directory = takes_requests, None, None

    def mount(self, directory):
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if LIBC.mount(b"hung", os.fsencode(directory), b"fuse", 0, options) != 0:
            error = ctypes.get_errno()
            os.close(self.device)
            raise OSError(error, os.strerror(error))
        self.directory = directory
        if self.takes_requests:
            threading.Thread(target=self._take, daemon=True).start()
        return self

    def _take(self):
        try:
            while True:
                request = os.read(self.device, 1 << 20)
                _, kind, number, node = HEADER.unpack_from(request)[:4]
                answer = self._answer(kind, node, request[HEADER.size:])
                if answer is not None:
                    error, body = answer
                    os.write(self.device, struct.pack("<IiQ", 16 + len(body), -error, number) + body)
        except OSError:
            pass

    def _answer(self, kind, _node, _request):
        """The error and the body; None: there is no answer. The first request is answered, so that others come."""
        if kind == FUSE_INIT:
            return 0, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 17, 1, 1, 0, 0)
        return None

    def close(self):
        """The kernel fails all requests when no process has the device any more."""
        LIBC.umount2(os.fsencode(self.directory), DETACH)
        os.close(self.device)


class PartlyHungFiles(HungFiles):
    """Files in memory. Once hang() was called, the operations of these names (OPERATIONS) have no answer; `met` is set by the first."""

    def __init__(self, operations):
        super().__init__(True)
        self.silent = set().union(*(OPERATIONS[name] for name in operations))
        self.hangs, self.met = False, threading.Event()
        self.nodes, self.next_node = {1: {}}, 2  # a folder is a dict of names, a file is bytes

    def hang(self):
        self.hangs = True

    def _attributes(self, node):
        content = self.nodes[node]
        mode = stat.S_IFDIR | 0o777 if isinstance(content, dict) else stat.S_IFREG | 0o644
        size = 0 if isinstance(content, dict) else len(content)
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _entry(self, node):
        return struct.pack("<4Q2I", node, 0, 0, 0, 0, 0) + self._attributes(node)

    def _make(self, folder, name, content):
        node, self.next_node = self.next_node, self.next_node + 1
        self.nodes[node] = content
        self.nodes[folder][name] = node
        return node

    def _list(self, node, offset):
        entries = b""
        for place, (name, child) in enumerate(sorted(self.nodes[node].items()), 1):
            if place > offset:
                kind = 4 if isinstance(self.nodes[child], dict) else 8
                entries += struct.pack("<QQII", child, place, len(name), kind) + name + bytes(-len(name) % 8)
        return entries

    def _change(self, kind, node, request):
        """The operations that change a file or a folder."""
        if kind == SETATTR:
            valid, size = struct.unpack_from("<I12xQ", request)
            if valid & HAS_SIZE:
                self.nodes[node] = self.nodes[node][:size].ljust(size, b"\0")
            return 0, struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if kind == MKDIR:
            return 0, self._entry(self._make(node, request[8:].split(b"\0")[0], {}))
        if kind == CREATE:
            return 0, self._entry(self._make(node, request[16:].split(b"\0")[0], b"")) + struct.pack("<QII", 0, 0, 0)
        if kind == WRITE:
            _, offset, size = struct.unpack_from("<QQI", request)
            before = self.nodes[node].ljust(offset, b"\0")
            self.nodes[node] = before[:offset] + request[40:40 + size] + before[offset + size:]
            return 0, struct.pack("<II", size, 0)
        if kind == UNLINK:
            self.nodes[node].pop(request.split(b"\0")[0])
            return 0, b""
        old, new = request[8 if kind == RENAME else 16:].split(b"\0")[:2]
        self.nodes[struct.unpack_from("<Q", request)[0]][new] = self.nodes[node].pop(old)
        return 0, b""

    def _answer(self, kind, node, request):
        if self.hangs and kind in self.silent:
            self.met.set()
            return None
        if kind in (FORGET, INTERRUPT, BATCH_FORGET):
            return None
        if kind == FUSE_INIT:
            return super()._answer(kind, node, request)
        if kind == LOOKUP:
            child = self.nodes[node].get(request.split(b"\0")[0])
            return (errno.ENOENT, b"") if child is None else (0, self._entry(child))
        if kind == GETATTR:
            return 0, struct.pack("<QII", 0, 0, 0) + self._attributes(node)
        if kind in (OPEN, OPENDIR):
            return 0, struct.pack("<QII", 0, 0, 0)
        if kind == READ:
            _, offset, size = struct.unpack_from("<QQI", request)
            return 0, self.nodes[node][offset:offset + size]
        if kind == READDIR:
            return 0, self._list(node, struct.unpack_from("<QQ", request)[1])
        if kind == STATFS:
            return 0, struct.pack("<5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0)
        if kind in (RELEASE, RELEASEDIR, FSYNC, FSYNCDIR, FLUSH, ACCESS):
            return 0, b""
        if kind in (SETATTR, MKDIR, CREATE, WRITE, UNLINK, RENAME, RENAME2):
            return self._change(kind, node, request)
        return errno.ENOSYS, b""
