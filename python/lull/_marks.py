# SPDX-License-Identifier: Apache-2.0
"""Sections, steps and energy windows of this process."""
import ctypes
import errno
import os
import time
from types import TracebackType
from typing import Callable, Dict, Optional, Protocol, Type

from ._library import JOULES_ESTIMATED, JOULES_VALID, WindowFigure, library

# liblull joins a job at the first call, by the environment of that time. A process that is started without a job never
# gets one, so that its marks need not call C at all.
is_managed = library is not None and "LULL_JOB" in os.environ
"""Whether this process was started by `lull run`."""

MAX_SECTIONS = 64  # liblull has as many names; further ones share the last


class SectionMark(Protocol):
    """What :func:`section` returns: a context manager that any number of threads may enter."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None: ...


class _NoSection:
    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        pass


class _Section:
    __slots__ = ("number", "enter", "leave")

    def __init__(self, number: int, enter: Callable[[int], None], leave: Callable[[int], None]) -> None:
        self.number, self.enter, self.leave = number, enter, leave

    def __enter__(self) -> None:
        self.enter(self.number)

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.leave(self.number)


_no_section = _NoSection()
_sections: Dict[str, SectionMark] = {}


def _c_name(name: str) -> bytes:
    """A name as C takes it; what follows a zero character does not count."""
    return name.encode("utf-8", "replace").split(b"\0")[0]


def _register(name: str) -> SectionMark:
    mark: SectionMark = _no_section
    if is_managed and library is not None:
        number = library.lull_section_register(_c_name(name))
        mark = _Section(number, library.lull_section_enter, library.lull_section_leave)
    if len(_sections) < MAX_SECTIONS:
        _sections[name] = mark
    return mark


def section(name: str) -> SectionMark:
    """Marks what this thread does inside a ``with`` block: ``with lull.section("optimizer"): ...``.

    "communication", "bubble" and "idle" say that the GPU waits; its clock may be lowered there at once. "forward" and
    "backward" are computation. The clock of any other section is searched in small steps from the top. At most 47 bytes of
    a name count; after 63 names the rest share one. Without ``lull run`` it does nothing. Any thread.
    """
    try:
        return _sections[name]
    except KeyError:
        return _register(name)


def step() -> None:
    """Marks the boundary between two iterations of training. Call it once per iteration and rank.

    Without ``lull run`` it does nothing. Any thread.
    """


if is_managed and library is not None:
    step = library.lull_step  # a Python function around it would cost as much again


class Window:
    """The energy of a piece of work, as :func:`window` measures it. Its figures are valid after the ``with`` block.

    Attributes:
        name: The window's name.
        seconds: Wall time between begin and end; None while the window is open.
        joules: Energy of all GPUs of this process; None where it is not known.
        uncertainty: The truth is within joules +- this (J) in 95 of 100 windows; None where joules is.
        is_estimate: The energy was worked out rather than measured, for example because the window is short.
        gpus: The number of GPUs that the energy is of.
        reason: Why joules is None; else None.
    """

    __slots__ = ("name", "seconds", "joules", "uncertainty", "is_estimate", "gpus", "reason", "_number", "_begin")

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds: Optional[float] = None
        self.joules: Optional[float] = None
        self.uncertainty: Optional[float] = None
        self.is_estimate = False
        self.gpus = 0
        self.reason: Optional[str] = "the window has not ended"
        self._number = -errno.ENOSYS
        self._begin = 0.0

    def __enter__(self) -> "Window":
        self.seconds = self.joules = self.uncertainty = None
        self.is_estimate, self.gpus, self.reason = False, 0, "the window has not ended"
        if library is not None:
            self._number = library.lull_window_begin(_c_name(self.name))
        self._begin = time.monotonic()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        figure = WindowFigure()
        if library is None:
            result = -errno.ENOSYS
        elif self._number < 0:
            result = self._number
        else:
            result = library.lull_window_end(self._number, ctypes.byref(figure))
        self._number = -errno.ENOSYS
        if result < 0:
            self.seconds = time.monotonic() - self._begin
            self.reason = _why_not(result)
            return
        self._take(figure)

    def _take(self, figure: WindowFigure) -> None:
        self.seconds, self.gpus = figure.seconds, figure.gpus
        if figure.flags & JOULES_VALID:
            self.joules, self.uncertainty, self.reason = figure.joules, figure.uncertainty_j, None
            self.is_estimate = bool(figure.flags & JOULES_ESTIMATED)
        elif figure.gpus == 0:
            self.reason = ("no GPU of this process was found: no NVIDIA driver, or several GPUs and neither a CUDA context "
                           "nor CUDA_VISIBLE_DEVICES; lull.zeus.ZeusMonitor measures GPUs by index, of all vendors")
        else:
            self.reason = "the energy counter of a GPU could not be read"


def _why_not(result: int) -> str:
    if result == -errno.ENOSYS:
        return "liblull was not found; install it, or name its file in LULL_LIBRARY"
    if result == -errno.ENOSPC:
        return "64 windows are open in this process; close some of them"
    return os.strerror(-result)


def window(name: str) -> Window:
    """Measures the energy of a ``with`` block: ``with lull.window("epoch") as w: ...``, then ``w.joules``.

    Works with and without ``lull run``, whose report has a row for each name. Windows may nest and overlap. Work that was
    only enqueued on the GPU is not waited for: synchronise first, or measure many iterations. The first window loads the
    driver, which may take a second; the others cost a few microseconds, and once a second a reading of the counters.
    """
    return Window(name)
