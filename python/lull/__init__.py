# SPDX-License-Identifier: Apache-2.0
"""Lull: power management of GPUs in distributed deep learning.

Marks for ``lull run`` and energy windows: :func:`section`, :func:`step`, :func:`window`. Commands of Lull: :func:`devices`,
:func:`report`, :func:`simulate`, :func:`analyze`, and :mod:`lull.batch`. :mod:`lull.zeus` has the interface of Zeus, and
:mod:`lull.callbacks` is for Hugging Face Trainer, Lightning and Accelerate. docs/user/python.md has examples.
"""
from . import batch, callbacks
from ._commands import AnalyzeHandler, analyze, analyze_handler, devices, report, simulate
from ._marks import SectionMark, Window, section, step, window
from ._program import LullError
from .documents import Analysis, Device, Report, Simulation

__version__ = "0.1.0"

__all__ = ["Analysis", "AnalyzeHandler", "Device", "LullError", "Report", "SectionMark", "Simulation", "Window", "analyze",
           "analyze_handler", "batch", "callbacks", "devices", "report", "section", "simulate", "step", "window"]
