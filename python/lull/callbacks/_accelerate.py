# SPDX-License-Identifier: Apache-2.0
"""Marks for Hugging Face's accelerate, whose loop is the program's own."""
from typing import Any

from .._marks import SectionMark, section, step


class AccelerateMarks:
    """Marks of one accelerator. Its optimizer's step() is replaced by one that also marks."""

    def __init__(self, accelerator: Any) -> None:
        optimizers = getattr(accelerator, "_optimizers", [])
        if not optimizers:
            raise ValueError("the accelerator has no optimizer; call accelerator.prepare() first")
        self._accelerator, self._optimizer = accelerator, optimizers[0]
        self._step = self._optimizer.step
        self._optimizer.step = self._mark

    def _mark(self, *arguments: Any, **keywords: Any) -> Any:
        result = self._step(*arguments, **keywords)
        if self._accelerator.sync_gradients:
            step()
        return result

    def evaluation(self) -> SectionMark:
        """The section of an evaluation: ``with marks.evaluation(): ...``."""
        return section("evaluation")

    def remove(self) -> None:
        """Gives the optimizer its own step() back."""
        self._optimizer.step = self._step
