# SPDX-License-Identifier: Apache-2.0
"""Runs commands of the program `lull`."""
import json
import os
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _native

Value = Union[None, bool, int, float, str, Sequence[Union[int, float, str]]]
"""What an option may be: None and False leave it out, True gives it without a value, a sequence is joined by commas."""


class LullError(RuntimeError):
    """A command of `lull` failed.

    Attributes:
        status: Its exit status: 1 failed, 2 usage, 3 not permitted, 4 no such device or unsupported; None: it did not run.
    """

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.status = status


def program() -> str:
    """Returns the path of `lull`. Errors: LullError it is not installed."""
    path = _native.find("lull")
    if path is None:
        raise LullError("the program lull was not found; install it (pip install lull), or add its folder to PATH")
    return path


def options(values: Mapping[str, Value]) -> List[str]:
    """Options of a command line from keywords: ``switch_ms=(15, 20)`` becomes ``--switch-ms=15,20``."""
    words = []
    for name, value in values.items():
        word = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(word)
        elif isinstance(value, (int, float, str)):
            words.append(f"{word}={value}")
        else:
            words.append(f"{word}={','.join(str(part) for part in value)}")
    return words


def paths(names: Sequence[Union[str, "os.PathLike[str]"]]) -> List[str]:
    """Paths as operands: one that begins with a dash is no option."""
    return ["--", *(os.fspath(name) for name in names)] if names else []


def ask(*words: str) -> Dict[str, Any]:
    """Runs `lull WORDS --json` and returns its document. Errors: LullError with what the command printed."""
    end = words.index("--") if "--" in words else len(words)
    done = subprocess.run([program(), *words[:end], "--json", *words[end:]], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip()
        raise LullError(text or f"lull {words[0]} ended with status {done.returncode}", done.returncode)
    document = json.loads(done.stdout)
    if not isinstance(document, dict):
        raise LullError(f"lull {words[0]} printed no JSON object")
    return document
