# SPDX-License-Identifier: Apache-2.0
"""The batch size of recurring jobs, through `lull batch` (lull-batch(1))."""
import subprocess
from typing import Optional, Sequence, Tuple

from ._program import Value, ask, options, program
from .documents import BatchJob, build


def run(command: Sequence[str], *, job: str, sizes: Sequence[int], metric: str, target: float,
        lower_is_better: bool = False, **others: Value) -> int:
    """Runs a recurrence of a job with the batch size that is recommended, or worth trying (`lull batch run`).

    command: the job, with ``{batch}`` in place of the batch size and ``{lr}`` of the learning rate. metric: an extended
    regular expression with one group, the metric in a line of the job's output. The keywords are the command's options,
    with underscores for dashes; lull-batch(1) explains all of them. The job's output is passed through.
    Returns the exit status: 0 if the target was reached.
    """
    words = options(dict(others, job=job, sizes=sizes, metric=metric, target=target, lower_is_better=lower_is_better))
    return subprocess.run([program(), "batch", "run", *words, "--", *command], check=False).returncode


def show(job: str, *, store: Optional[str] = None) -> BatchJob:
    """Returns the history of a job. Errors: LullError there is no such job."""
    return build(BatchJob, ask("batch", "show", *options({"store": store}), "--", job))


def jobs(*, store: Optional[str] = None) -> Tuple[BatchJob, ...]:
    """Returns the recurring jobs that are known."""
    return tuple(build(BatchJob, job) for job in ask("batch", "list", *options({"store": store}))["jobs"])


def forget(job: str, *, store: Optional[str] = None) -> None:
    """Forgets a job with all its runs. Errors: subprocess.CalledProcessError there is no such job."""
    subprocess.run([program(), "batch", "forget", *options({"store": store}), "--", job], check=True)
