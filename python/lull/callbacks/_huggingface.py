# SPDX-License-Identifier: Apache-2.0
"""The callback for the Trainer of Hugging Face's transformers."""
from typing import Any

from transformers import TrainerCallback

from .._marks import section, step


class LullTrainerCallback(TrainerCallback):  # type: ignore[misc]
    """Marks optimizer steps, and evaluation and prediction as a section."""

    def __init__(self, *callbacks: Any) -> None:
        self._callbacks = callbacks
        self._section = section("evaluation")
        self._is_evaluating = False

    def _begin_evaluation(self) -> None:
        if not self._is_evaluating:
            self._is_evaluating = True
            self._section.__enter__()

    def _end_evaluation(self) -> None:
        if self._is_evaluating:
            self._is_evaluating = False
            self._section.__exit__(None, None, None)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The first micro-batch of a step begins."""
        self._end_evaluation()  # of one that was cancelled
        for callback in self._callbacks:
            callback.on_step_begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has made its step."""
        step()
        for callback in self._callbacks:
            callback.on_step_end()
        self._look_ahead(control)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An epoch begins."""
        for callback in self._callbacks:
            callback.on_epoch_begin()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An epoch has ended."""
        for callback in self._callbacks:
            callback.on_epoch_end()
        self._look_ahead(control)

    def _look_ahead(self, control: Any) -> None:
        """The trainer decides before these events whether it will evaluate, and has no event when it begins."""
        if getattr(control, "should_evaluate", False):
            self._begin_evaluation()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A batch was evaluated: evaluate() and predict() by themselves begin here."""
        self._begin_evaluation()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The evaluation has ended."""
        self._end_evaluation()

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **kwargs: Any) -> None:
        """The prediction has ended."""
        self._end_evaluation()
