# SPDX-License-Identifier: Apache-2.0
"""Commands of Lull as functions."""
import json
import os
import pathlib
import sys
import threading
from typing import Any, Callable, List, Optional, Tuple, Union

from ._program import LullError, Value, ask, options, paths
from .documents import Analysis, Device, Report, Simulation, build

Path = Union[str, "os.PathLike[str]"]

NO_DEVICE = 4  # exit status of lull: no such device, or unsupported
REPORTS = "lull-report"  # where lull run writes reports


def devices() -> Tuple[Device, ...]:
    """Returns the GPUs of this node, as `lull gpus` lists them; empty: there are none, or no driver.

    Errors: LullError the command failed for another reason.
    """
    try:
        document = ask("gpus")
    except LullError as error:
        if error.status == NO_DEVICE:
            return ()
        raise
    return tuple(build(Device, gpu) for gpu in document["gpus"])


def report(path: Optional[Path] = None) -> Report:
    """Returns the report of a run.

    path: its folder or its report.json; None: the report in ./lull-report that was written last.
    Errors: OSError, ValueError the file cannot be read, or is no report.
    """
    file = _last_report() if path is None else pathlib.Path(path)
    if file.is_dir():
        file = file / "report.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or "version" not in document:
        raise ValueError(f"{file}: not a report of lull run; pass the folder of a run or its report.json")
    return build(Report, document)


def _last_report() -> pathlib.Path:
    files = list(pathlib.Path(REPORTS).glob("*/report.json"))
    if not files:
        raise FileNotFoundError(f"there is no run in {REPORTS} here; pass the folder of one, as given to lull run --report")
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def simulate(*traces: Path, preset: Optional[str] = None, ranks: Optional[int] = None, model: Optional[str] = None,
             tolerance: Union[None, float, str] = None, periods: Optional[int] = None,
             modes: Union[None, str, List[str]] = None, seed: Optional[int] = None, **others: Value) -> Simulation:
    """Plays traces, or a preset, in virtual time under Lull (`lull simulate`).

    The keywords are the command's options, with underscores for dashes; lull-simulate(1) explains all of them.
    Errors: LullError with the command's message.
    """
    words = options(dict(others, preset=preset, ranks=ranks, model=model, tolerance=tolerance, periods=periods, modes=modes,
                         seed=seed))
    return build(Simulation, ask("simulate", *words, *paths(traces)))


def analyze(*traces: Path, model: Optional[str] = None, tolerance: Union[None, float, str] = None,
            switch_ms: Optional[Tuple[float, float]] = None, **others: Value) -> Analysis:
    """Predicts from profiler traces, one per rank, what lower clocks would have saved (`lull analyze`).

    The keywords are the command's options, with underscores for dashes; lull-analyze(1) explains all of them.
    Errors: LullError with the command's message.
    """
    words = options(dict(others, model=model, tolerance=tolerance, switch_ms=switch_ms))
    return build(Analysis, ask("analyze", *words, *paths(traces)))


class AnalyzeHandler:
    """Writes each finished trace of torch.profiler into a folder and analyses it on a thread, beside the training.

    Failures are printed on standard error and never reach the training.

    Attributes:
        analyses: Those that have ended, in the order of their traces.
    """

    def __init__(self, directory: Path, say: Optional[Callable[[str], None]], values: "dict[str, Value]") -> None:
        self.directory, self.values = pathlib.Path(directory), values
        self.say = say if say is not None else _print_error
        self.analyses: List[Analysis] = []
        self._threads: List[threading.Thread] = []

    def __call__(self, profile: Any) -> None:
        """Takes a profile, as ``on_trace_ready`` passes it."""
        rank = os.environ.get("RANK", "0")
        path = self.directory / f"rank{rank}-step{getattr(profile, 'step_num', 0)}.json"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            profile.export_chrome_trace(str(path))
        except (OSError, RuntimeError) as error:
            self.say(f"lull: {path} was not written: {error}")
            return
        thread = threading.Thread(target=self._analyze, args=(path,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _analyze(self, path: pathlib.Path) -> None:
        try:
            analysis = analyze(path, **self.values)  # type: ignore[arg-type]
        except LullError as error:
            self.say(f"lull: {path} was not analysed: {error}")
            return
        self.analyses.append(analysis)
        self.say(f"lull: {path}: {analysis.verdict}")

    def wait(self) -> List[Analysis]:
        """Waits for the analyses that have begun, and returns all that have ended."""
        for thread in self._threads:
            thread.join()
        return self.analyses


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def analyze_handler(profile: Any = None, *, directory: Path = "lull-traces", say: Optional[Callable[[str], None]] = None,
                    **values: Value) -> Optional[AnalyzeHandler]:
    """A handler for torch.profiler: ``on_trace_ready=lull.analyze_handler`` or ``=lull.analyze_handler(model="H100")``.

    directory: where the traces are written. say: takes a line of text; None: it goes to standard error. The other keywords
    are those of :func:`analyze`. Given a profile, it writes and analyses that, and returns once its verdict was printed.
    """
    handler = AnalyzeHandler(directory, say, values)
    if profile is None:
        return handler
    handler(profile)
    handler.wait()
    return None
