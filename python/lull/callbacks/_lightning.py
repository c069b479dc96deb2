# SPDX-License-Identifier: Apache-2.0
"""The callback for the Trainer of Lightning."""
from typing import Any

from .._marks import section, step

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class LullCallback(Callback):  # type: ignore[misc]
    """Marks optimizer steps, and validation, test and prediction as a section."""

    def __init__(self, *callbacks: Any) -> None:
        self._callbacks = callbacks
        self._section = section("evaluation")
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The training begins, perhaps from a checkpoint."""
        self._steps = trainer.global_step

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """An epoch begins."""
        for callback in self._callbacks:
            callback.on_epoch_begin()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A batch begins."""
        for callback in self._callbacks:
            callback.on_step_begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A batch has ended; not each one is a step of the optimizer."""
        if trainer.global_step != self._steps:
            self._steps = trainer.global_step
            step()
        for callback in self._callbacks:
            callback.on_step_end()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """An epoch has ended."""
        for callback in self._callbacks:
            callback.on_epoch_end()

    def _begin_evaluation(self, trainer: Any, pl_module: Any) -> None:
        self._section.__enter__()

    def _end_evaluation(self, trainer: Any, pl_module: Any) -> None:
        self._section.__exit__(None, None, None)

    on_validation_start = on_test_start = on_predict_start = _begin_evaluation
    on_validation_end = on_test_end = on_predict_end = _end_evaluation
