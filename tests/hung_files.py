"""A file system that never answers: FUSE, spoken by a thread here, in two kinds. One takes no request, not even the first; the other
takes all and answers none, so that not even SIGKILL ends who waits. SPDX-License-Identifier: Apache-2.0"""
import ctypes
import os
import struct
import threading

FUSE_INIT, HEADER = 26, struct.Struct("<IIQQIIII")
LIBC = ctypes.CDLL(None, use_errno=True)
DETACH = 2


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
        """Answers the first request, so that others come."""
        try:
            while True:
                request = os.read(self.device, 1 << 20)
                _, kind, number = HEADER.unpack_from(request)[:3]
                if kind == FUSE_INIT:
                    body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 1, 0, 0)
                    os.write(self.device, struct.pack("<IiQ", 16 + len(body), 0, number) + body)
        except OSError:
            pass

    def close(self):
        """The kernel fails all requests when no process has the device any more."""
        LIBC.umount2(os.fsencode(self.directory), DETACH)
        os.close(self.device)
