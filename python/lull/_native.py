# SPDX-License-Identifier: Apache-2.0
"""Finds Lull's programs and its library.

A wheel installs them below the prefix of the Python environment, in which this package is.
"""
import os
import shutil
from typing import Optional

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "liblull.so.0"
"""The file name of the C library (include/lull/lull.h)."""


def find_prefix() -> Optional[str]:
    """Returns the prefix above ``lib/pythonX.Y/site-packages/lull``; None: this package is elsewhere, as in a checkout."""
    packages = os.path.dirname(FOLDER)
    if os.path.basename(packages) not in ("site-packages", "dist-packages"):
        return None
    return os.path.dirname(os.path.dirname(os.path.dirname(packages)))


def find(name: str) -> Optional[str]:
    """Returns the path of a program ("lull") or of a library ("liblull.so.0"); None: it is not here.

    Programs are searched below the prefix, then in PATH. Libraries are searched below the prefix, then in the environment
    variable LULL_LIBRARY, which names a file; else the name alone is returned, for the system's loader.
    """
    is_library = ".so" in name
    prefix = find_prefix()
    packaged = os.path.join(prefix or "", "lib" if is_library else "bin", name)
    if prefix is not None and os.path.exists(packaged):
        return packaged
    if is_library:
        return os.environ.get("LULL_LIBRARY") or name
    return shutil.which(name)
