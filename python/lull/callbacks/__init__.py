# SPDX-License-Identifier: Apache-2.0
"""Callbacks for training loops of others: they mark steps, and evaluation as the section "evaluation".

The frameworks are imported when a callback is made, not with this module::

    Trainer(..., callbacks=[lull.callbacks.huggingface()])
    lightning.Trainer(..., callbacks=[lull.callbacks.lightning()])
    marks = lull.callbacks.accelerate(accelerator)  # after accelerator.prepare()

Without ``lull run`` the marks do nothing.
"""
from typing import TYPE_CHECKING, Any

from ._accelerate import AccelerateMarks

if TYPE_CHECKING:
    from ..zeus import Callback

EVALUATION = "evaluation"
"""The name of the section."""

__all__ = ["EVALUATION", "AccelerateMarks", "accelerate", "huggingface", "lightning"]


def huggingface(*callbacks: "Callback") -> Any:
    """Returns a TrainerCallback for the Trainer of Hugging Face's transformers, and for trainers that derive from it.

    callbacks: also call these, for example lull.zeus.GlobalPowerLimitOptimizer(monitor).
    Errors: ImportError transformers is not installed.
    """
    from ._huggingface import LullTrainerCallback

    return LullTrainerCallback(*callbacks)


def lightning(*callbacks: "Callback") -> Any:
    """Returns a Callback for the Trainer of Lightning (the package lightning, else pytorch_lightning).

    callbacks: also call these, for example lull.zeus.GlobalPowerLimitOptimizer(monitor).
    Errors: ImportError neither package is installed.
    """
    from ._lightning import LullCallback

    return LullCallback(*callbacks)


def accelerate(accelerator: Any) -> AccelerateMarks:
    """Marks a step at each step of the first optimizer that the accelerator of Hugging Face's accelerate has prepared.

    Call it after accelerator.prepare(). Steps that only accumulate gradients do not count.
    Errors: ValueError no optimizer was prepared.
    """
    return AccelerateMarks(accelerator)
