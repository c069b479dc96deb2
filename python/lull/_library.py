# SPDX-License-Identifier: Apache-2.0
"""liblull through ctypes (include/lull/lull.h)."""
import ctypes
from typing import Optional

from . import _native

JOULES_VALID = 1
JOULES_ESTIMATED = 2


class WindowFigure(ctypes.Structure):
    """struct lull_window."""

    _fields_ = [("seconds", ctypes.c_double), ("joules", ctypes.c_double), ("uncertainty_j", ctypes.c_double),
                ("gpus", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


def _load() -> Optional[ctypes.CDLL]:
    try:
        library = ctypes.CDLL(_native.find(_native.LIBRARY))
    except OSError:
        return None
    library.lull_step.argtypes = ()
    library.lull_step.restype = None
    library.lull_section_register.argtypes = (ctypes.c_char_p,)
    library.lull_section_register.restype = ctypes.c_uint32
    for name in ("lull_section_enter", "lull_section_leave"):
        function = getattr(library, name)
        function.argtypes = (ctypes.c_uint32,)
        function.restype = None
    library.lull_window_begin.argtypes = (ctypes.c_char_p,)
    library.lull_window_begin.restype = ctypes.c_int
    library.lull_window_end.argtypes = (ctypes.c_int, ctypes.POINTER(WindowFigure))
    library.lull_window_end.restype = ctypes.c_int
    return library


library = _load()
"""The loaded library; None: there is none."""
