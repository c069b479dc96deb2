# SPDX-License-Identifier: Apache-2.0
"""Finds Lull's programs and its library.

A wheel has them in the folders ``bin`` and ``lib`` beside this file.
"""
import os
import shutil
from typing import Optional

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "liblull.so.0"
"""The file name of the C library (include/lull/lull.h)."""


def find(name: str) -> Optional[str]:
    """Returns the path of a program ("lull") or of a library ("liblull.so.0"); None: it is not here.

    Programs are searched in this package, then in PATH. Libraries are searched in this package, then in the environment
    variable LULL_LIBRARY, which names a file; else the name alone is returned, for the system's loader.
    """
    is_library = ".so" in name
    packaged = os.path.join(FOLDER, "lib" if is_library else "bin", name)
    if os.path.exists(packaged):
        return packaged
    if is_library:
        return os.environ.get("LULL_LIBRARY") or name
    return shutil.which(name)
