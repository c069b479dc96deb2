# SPDX-License-Identifier: Apache-2.0
"""A command of Lull that answers lines of standard input with lines of JSON: `lull meter --windows`, `lull limit hold`.

It is a process of its own, so that a driver that hangs delays the caller only for a limited time, once.
"""
import json
import os
import select
import subprocess
import tempfile
import threading
import time
from typing import Any, Dict, Optional

from ._program import LullError, program

OPENING_S = 30.0  # a driver without persistence mode takes seconds per GPU to load


class Lines:
    """A running command. It ends with this object, and with the process.

    Threads: any. A child of fork() has none: its requests are answered with an error.

    Attributes:
        greeting: What the command printed first.
    """

    def __init__(self, *words: str, patience_s: float) -> None:
        """Starts `lull WORDS`. patience_s: how long an answer may take. Errors: LullError with the command's message."""
        self._lock, self._pid, self._rest, self._patience_s = threading.Lock(), os.getpid(), b"", patience_s
        self._errors = tempfile.TemporaryFile()
        # In a session of its own: Ctrl-C ends the program, whose exit handlers still use this.
        self._process: Optional["subprocess.Popen[bytes]"] = subprocess.Popen(
            [program(), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)
        self.greeting = self._read(OPENING_S)
        if "error" in self.greeting:
            raise LullError(self.greeting["error"], self.greeting.get("status"))

    def ask(self, request: str) -> Dict[str, Any]:
        """Sends a line; returns the answer, or an object with "error"."""
        with self._lock:
            if os.getpid() != self._pid:
                return {"error": "this process is a fork of the one that began the measurement"}
            if self._process is None or self._process.stdin is None:
                return {"error": "the command has ended"}
            try:
                self._process.stdin.write(request.encode() + b"\n")
                self._process.stdin.flush()
            except OSError:
                return self._fail("the command has ended")
            return self._read(self._patience_s)

    def _read(self, patience_s: float) -> Dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        output, until = self._process.stdout.fileno(), time.monotonic() + patience_s
        while b"\n" not in self._rest:
            left_s = until - time.monotonic()
            if left_s <= 0 or not _is_readable(output, left_s):
                self._process.kill()
                return self._fail("the driver does not respond; see its log (dmesg)")
            part = os.read(output, 65536)
            if not part:
                return self._fail("the command has ended")
            self._rest += part
        line, self._rest = self._rest.split(b"\n", 1)
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _fail(self, reason: str) -> Dict[str, Any]:
        """Ends the command; the answer is its own message, if it has printed one, else the reason."""
        status = self._stop()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.close()
        return {"error": said or reason, "status": status}

    def _stop(self) -> Optional[int]:
        """Closes the pipes, which ends the command. None: it hangs in the driver, and is left to end when that returns."""
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        try:
            return process.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Ends the command and waits for that."""
        with self._lock:
            if os.getpid() == self._pid:
                self._stop()
                self._errors.close()


def _is_readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(1.0, seconds * 1e3)))
