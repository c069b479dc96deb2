# SPDX-License-Identifier: Apache-2.0
"""The interface of Zeus (ml-energy/zeus 0.16) on Lull, so that a program moves over by its import alone::

    from lull.zeus import GlobalPowerLimitOptimizer, ZeusMonitor

Figures follow the rules of docs/user/energy.md: an energy that is not known is NaN, never 0, and each has an uncertainty.
Names of Zeus that have no equivalent raise NotImplementedError, which names the alternative.
"""
import atexit
import enum
import json
import logging
import math
import os
import pathlib
import sys
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Dict, List, NoReturn, Optional, Tuple, Union

from . import callbacks
from ._lines import Lines
from ._program import LullError

Path = Union[str, "os.PathLike[str]"]

logger = logging.getLogger(__name__)

# How long an answer may take: a reading of all GPUs of a node takes tens of milliseconds, a power limit some more per GPU.
READING_S = 2.0
SETTING_S = 15.0


# ---- energy windows ----


@dataclass
class Measurement:
    """The result of a window.

    Attributes:
        time: Its length in seconds.
        gpu_energy: Joules by GPU index; NaN where it is not known.
        cpu_energy: Joules of all processors of the node, by the index 0; None: not known. Lull adds the packages up.
        dram_energy: The same of their memory.
        soc_energy: Always None; here for programs that read it.
        gpu_uncertainty: Beyond Zeus: the truth is within gpu_energy +- this in 95 of 100 windows.
        reasons: Beyond Zeus: why an energy is not known, by GPU index.
    """

    time: float
    gpu_energy: Dict[int, float]
    cpu_energy: Optional[Dict[int, float]] = None
    dram_energy: Optional[Dict[int, float]] = None
    soc_energy: None = None
    gpu_uncertainty: Dict[int, float] = field(default_factory=dict)
    reasons: Dict[int, str] = field(default_factory=dict)

    @property
    def total_energy(self) -> float:
        """Joules of all GPUs; NaN if that of one is not known."""
        return sum(self.gpu_energy.values())


@dataclass
class _OpenWindow:
    number: Optional[int]  # of lull meter; None: nothing is measured
    begin_s: float  # wall time
    begin_monotonic_s: float


class ZeusMonitor:
    """Measures time and energy of blocks of code (see the example in docs/user/python.md).

    GPU indices count the GPUs that the program may use, in the order of CUDA_VISIBLE_DEVICES. A window begins and ends at
    the same time on all GPUs. GPUs of AMD and Intel, and GPUs without an energy counter, are measured as well.

    Where nothing can be measured (no driver, no `lull`), a warning says why, and all energies are NaN.
    """

    def __init__(self, gpu_indices: Optional[List[int]] = None, cpu_indices: Optional[List[int]] = None,
                 approx_instant_energy: bool = False, log_file: Optional[Path] = None,
                 sync_execution_with: str = "torch") -> None:
        """
        Args:
            gpu_indices: The GPUs to measure; None: all that the program may use.
            cpu_indices: []: processors and memory are not measured; None or [0]: they are, all packages as one.
            approx_instant_energy: Accepted and not needed: Lull never reports 0 for a short window.
            log_file: A CSV file with one line per window, in Zeus's format.
            sync_execution_with: "torch", "jax" or "cupy": whose work is awaited at both ends of a window.
        """
        if sync_execution_with not in ("torch", "jax", "cupy"):
            raise ValueError(f"sync_execution_with: {sync_execution_with!r} is not torch, jax or cupy")
        if cpu_indices not in (None, [], [0]):
            raise NotImplementedError("Lull measures all processors of the node as one; use cpu_indices=None, or [0]")
        self.approx_instant_energy, self.sync_with = approx_instant_energy, sync_execution_with
        self._windows: Dict[str, _OpenWindow] = {}
        self._has_node = cpu_indices != []
        self._meter: Optional[Lines] = None
        self._reason = ""
        count = self._open()
        if cpu_indices and self._meter is not None and self._meter.greeting["node_reason"]:
            raise RuntimeError(f"processors cannot be measured: {self._meter.greeting['node_reason']}")
        self.gpu_indices = list(range(count)) if gpu_indices is None else list(gpu_indices)
        if self._meter is not None and not all(0 <= index < count for index in self.gpu_indices):
            raise ValueError(f"gpu_indices: {self.gpu_indices}: this program may use {count} GPUs, numbered from 0")
        self.cpu_indices: List[int] = [0] if self._has_node and self._meter is not None else []
        self.log_file = None if log_file is None else self._begin_log(pathlib.Path(log_file))

    def _open(self) -> int:
        """Starts the meter. Returns the number of GPUs."""
        try:
            self._meter = Lines("meter", "--windows", patience_s=READING_S)
        except LullError as error:
            self._reason = str(error)
            warnings.warn(f"ZeusMonitor measures nothing: {error}", stacklevel=3)
            return 0
        return len(self._meter.greeting["gpus"])

    def _begin_log(self, path: pathlib.Path) -> pathlib.Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = ["start_time", "window_name", "elapsed_time", *(f"gpu{index}_energy" for index in self.gpu_indices)]
        path.write_text(",".join(columns) + "\n", encoding="utf-8")
        return path

    def begin_window(self, key: str, sync_execution: bool = True, restart: bool = False) -> None:
        """Begins a window. Its key must not be open already, unless restart is given, which drops that window.

        sync_execution: wait for work that was enqueued on the GPUs before.
        """
        if key in self._windows:
            if not restart:
                raise ValueError(f"Measurement window '{key}' already exists")
            self._cancel(key)
        if sync_execution:
            _synchronize(self.gpu_indices, self.sync_with)
        number = None if self._meter is None else self._answer("begin").get("window")
        self._windows[key] = _OpenWindow(number, time.time(), time.monotonic())

    def end_window(self, key: str, sync_execution: bool = True, cancel: bool = False) -> Measurement:
        """Ends a window and returns what it took. cancel: discard it, and return zeros."""
        if key not in self._windows:
            raise ValueError(f"Measurement window '{key}' does not exist")
        if sync_execution:
            _synchronize(self.gpu_indices, self.sync_with)
        if cancel:
            self._cancel(key)
            return Measurement(0.0, {index: 0.0 for index in self.gpu_indices},
                               {index: 0.0 for index in self.cpu_indices})
        window = self._windows.pop(key)
        measurement = self._measure(window)
        if self.log_file is not None:
            with self.log_file.open("a", encoding="utf-8") as file:
                energies = ",".join(str(measurement.gpu_energy[index]) for index in self.gpu_indices)
                file.write(f"{window.begin_s},{key},{measurement.time},{energies}\n")
        return measurement

    def reset_windows(self) -> None:
        """Drops all open windows."""
        for key in list(self._windows):
            self._cancel(key)

    def _cancel(self, key: str) -> None:
        window = self._windows.pop(key)
        if window.number is not None:
            self._answer(f"cancel {window.number}")

    def _answer(self, request: str) -> Dict[str, Any]:
        assert self._meter is not None
        answer = self._meter.ask(request)
        if "error" in answer and answer["error"] != self._reason:
            self._reason = answer["error"]
            warnings.warn(f"ZeusMonitor: {self._reason}", stacklevel=4)
        return answer

    def _measure(self, window: _OpenWindow) -> Measurement:
        answer: Dict[str, Any] = {} if window.number is None else self._answer(f"end {window.number}")
        if "gpus" not in answer:
            return Measurement(time.monotonic() - window.begin_monotonic_s, {index: math.nan for index in self.gpu_indices},
                               gpu_uncertainty={index: math.nan for index in self.gpu_indices},
                               reasons={index: self._reason for index in self.gpu_indices})
        gpus = {index: answer["gpus"][index] for index in self.gpu_indices}
        return Measurement(
            answer["seconds"], {index: _number(gpu["energy_j"]) for index, gpu in gpus.items()},
            self._of_node(answer["cpu"]), self._of_node(answer["dram"]), None,
            {index: _number(gpu["uncertainty_j"]) for index, gpu in gpus.items()},
            {index: gpu["reason"] for index, gpu in gpus.items() if gpu["reason"] is not None})

    def _of_node(self, figure: Dict[str, Any]) -> Optional[Dict[int, float]]:
        if not self._has_node or figure["energy_j"] is None:
            return None
        return {0: figure["energy_j"]}


def _number(value: Optional[float]) -> float:
    return math.nan if value is None else value


def _synchronize(gpus: List[int], framework: str) -> None:
    """Waits for enqueued work. A framework that the program has not imported, or that has not used a GPU, has none."""
    module: Any = sys.modules.get(framework)
    if module is None:
        return
    if framework == "torch":
        if module.cuda.is_available() and module.cuda.is_initialized():
            for gpu in gpus:
                module.cuda.synchronize(gpu)
    elif framework == "cupy":
        for gpu in gpus:
            module.cuda.Device(gpu).synchronize()
    else:
        devices = module.devices()
        module.block_until_ready([module.device_put(0.0, device=device) + 0 for device in devices])


# ---- the choice of a power limit ----


@dataclass
class PowerLimitMeasurement:
    """Energy (J) and time (s) of a piece of training at a power limit (W)."""

    power_limit: int
    energy: float
    time: float


class OptimumSelector(ABC):
    """Chooses a power limit."""

    @abstractmethod
    def select(self, measurements: List[PowerLimitMeasurement]) -> int:
        """Returns the best limit, W."""


class Energy(OptimumSelector):
    """Chooses the limit of least energy."""

    def select(self, measurements: List[PowerLimitMeasurement]) -> int:
        """Returns the best limit, W."""
        return min(measurements, key=lambda measurement: measurement.energy).power_limit


class Time(OptimumSelector):
    """Chooses the fastest limit."""

    def select(self, measurements: List[PowerLimitMeasurement]) -> int:
        """Returns the best limit, W."""
        return min(measurements, key=lambda measurement: measurement.time).power_limit


class ZeusCost(OptimumSelector):
    """Chooses the limit of least cost eta E + (1 - eta) P T, P the highest limit times world_size."""

    def __init__(self, eta_knob: float, world_size: int = 1) -> None:
        if not 0 <= eta_knob <= 1:
            raise ValueError("eta_knob must be between 0 and 1, inclusive both sides.")
        if world_size < 1:
            raise ValueError("world_size must be greater than or equal to 1.")
        self.eta_knob, self.world_size = eta_knob, world_size

    def select(self, measurements: List[PowerLimitMeasurement]) -> int:
        """Returns the best limit, W."""
        max_power = max(measurement.power_limit for measurement in measurements) * self.world_size
        return min(measurements, key=lambda measurement: self.eta_knob * measurement.energy
                   + (1 - self.eta_knob) * max_power * measurement.time).power_limit


class MaxSlowdownConstraint(OptimumSelector):
    """Chooses the limit of least energy among those that take at most ``factor`` times as long as the highest.

    Zeus takes the lowest of them, which may cost more energy.
    """

    def __init__(self, factor: float) -> None:
        if factor < 1.0:
            raise ValueError(f"max_slowdown_factor must be greater than or equal to 1.0. Got {factor}.")
        self.factor = factor

    def select(self, measurements: List[PowerLimitMeasurement]) -> int:
        """Returns the best limit, W."""
        highest = max(measurements, key=lambda measurement: measurement.power_limit)
        feasible = [measurement for measurement in measurements if measurement.time <= self.factor * highest.time]
        return min(feasible, key=lambda measurement: measurement.energy).power_limit


class Callback:
    """Zeus's events of a training loop; all do nothing here."""

    def on_train_begin(self) -> None:
        """The training begins."""

    def on_train_end(self) -> None:
        """The training has ended."""

    def on_epoch_begin(self) -> None:
        """An epoch begins."""

    def on_epoch_end(self) -> None:
        """An epoch has ended."""

    def on_step_begin(self) -> None:
        """A step begins."""

    def on_step_end(self) -> None:
        """A step has ended."""

    def on_evaluate(self, metric: float) -> None:
        """The model was evaluated."""


class _Phase(enum.Enum):
    WAITING = enum.auto()
    WARMING_UP = enum.auto()
    MEASURING = enum.auto()
    INTERRUPTED = enum.auto()  # by the end of an epoch, while measuring
    DONE = enum.auto()


class GlobalPowerLimitOptimizer(Callback):
    """Measures the first steps of a training at each power limit and continues at the best one.

    Call on_step_begin() and on_epoch_end(). Limits are set through lulld, or as root without it. They are never above the
    one set before, which is restored at the end of the process for any reason, SIGKILL included (Zeus sets the maximum, and
    nothing after SIGKILL). Steps of a limit that an epoch's end interrupts go on in the next epoch. In a distributed job
    each rank measures its own GPU; energies are added up over ranks, and the longest time counts.

    Under `lull run` it pauses that run, which leases the same GPUs, until the end of the process. `lull run --power-limit auto`
    needs no change of the program, and measures at settled temperatures.
    """

    def __init__(self, monitor: ZeusMonitor, optimum_selector: Optional[OptimumSelector] = None, wait_steps: int = 1,
                 warmup_steps: int = 10, profile_steps: int = 40, pl_step: int = 25,
                 profile_path: Optional[Path] = None) -> None:
        """
        Args:
            monitor: Its gpu_indices are measured and limited.
            optimum_selector: None: ZeusCost(0.5), for all GPUs of the job.
            wait_steps: Steps before anything is measured.
            warmup_steps: Steps at a limit before it is measured.
            profile_steps: Steps that are measured at each limit.
            pl_step: The distance between limits, W.
            profile_path: Where measurements are stored as JSON; a file that exists is used instead of measuring.
        Errors: LullError the limits cannot be set; its text says what to do.
        """
        for name, value, least in (("wait_steps", wait_steps, 0), ("warmup_steps", warmup_steps, 0),
                                   ("profile_steps", profile_steps, 1), ("pl_step", pl_step, 1)):
            if value < least:
                raise ValueError(f"{name} must be {'positive' if least else 'non-negative'}.")
        self.monitor = monitor
        self.optimum_selector = optimum_selector
        self.warmup_steps, self.profile_steps = warmup_steps, profile_steps
        self.profile_path = None if profile_path is None else pathlib.Path(profile_path)
        self.measurements: List[PowerLimitMeasurement] = []
        self.optimal_power_limit: Optional[int] = None
        self._lines = _hold_limits(monitor.gpu_indices)
        atexit.register(self._lines.close)
        self.power_limits = _limits(self._lines.greeting["gpus"], pl_step)
        self._place = -1  # of the limit that is measured
        self._phase = _Phase.WAITING
        self._left = wait_steps + 1  # step-begins until the phase ends
        self._energy, self._time = 0.0, 0.0  # of the limit so far: pieces that ended with an epoch
        if self.profile_path is not None and self.profile_path.exists():
            stored = json.loads(self.profile_path.read_text(encoding="utf-8"))
            self.measurements = [PowerLimitMeasurement(**entry) for entry in stored["measurements"]]
            self._finish()

    def on_step_begin(self) -> None:
        """Counts a step, and changes the limit where that is due."""
        if self._phase is _Phase.INTERRUPTED:
            self._begin_piece()
        elif self._phase is not _Phase.DONE:
            self._count_step()

    def on_epoch_end(self) -> None:
        """Ends the measured piece; what it measured counts. The rest of the steps follows in the next epoch."""
        if self._phase is _Phase.MEASURING:
            self._end_piece()
            self._phase = _Phase.INTERRUPTED
            self._left -= 1  # the step that began last has ended with the epoch
            if self._left == 0:
                self._end_limit()

    def _count_step(self) -> None:
        self._left -= 1
        if self._left > 0:
            return
        if self._phase is _Phase.WAITING:
            self._next_limit()
        elif self._phase is _Phase.WARMING_UP:
            self._left = self.profile_steps
            self._begin_piece()
        else:
            self._end_piece()
            self._end_limit()

    def _begin_piece(self) -> None:
        self._phase = _Phase.MEASURING
        self.monitor.begin_window(self._window())

    def _end_piece(self) -> None:
        measurement = self.monitor.end_window(self._window())
        self._energy += sum(_all_reduce(list(measurement.gpu_energy.values()), "sum"))
        self._time += max(_all_reduce([measurement.time], "max"))

    def _end_limit(self) -> None:
        limit = self.power_limits[self._place]
        if math.isnan(self._energy):
            logger.warning("power limit %d W: its energy is not known; it is not a candidate", limit)
        else:
            self.measurements.append(PowerLimitMeasurement(limit, self._energy, self._time))
        self._energy, self._time = 0.0, 0.0
        if self._place + 1 < len(self.power_limits):
            self._next_limit()
        else:
            self._finish()

    def _next_limit(self) -> None:
        self._place += 1
        self._set(self.power_limits[self._place])
        self._phase, self._left = _Phase.WARMING_UP, self.warmup_steps
        if self.warmup_steps == 0:
            self._left = self.profile_steps
            self._begin_piece()

    def _finish(self) -> None:
        self._phase = _Phase.DONE
        if not self.measurements:
            logger.warning("no energy is known at any power limit; the previous limit stays")
            self.optimal_power_limit = 0
            self._set(0)
            return
        selector = self.optimum_selector or ZeusCost(0.5, _job_gpus(self.monitor))
        self.optimal_power_limit = selector.select(self.measurements)
        logger.info("optimal power limit: %d W", self.optimal_power_limit)
        self._set(self.optimal_power_limit)
        if self.profile_path is not None and not self.profile_path.exists():
            document = {"measurements": [vars(measurement) for measurement in self.measurements]}
            self.profile_path.write_text(json.dumps(document, indent=4) + "\n", encoding="utf-8")

    def _set(self, limit_w: int) -> None:
        answer = self._lines.ask(str(limit_w))
        if "error" in answer:
            logger.warning("power limit %d W: %s", limit_w, answer["error"])
        elif limit_w > 0 and any(read is not None and abs(read - limit_w) > 1 for read in answer["limits_w"]):
            logger.warning("power limit %d W: the GPUs have %s", limit_w, answer["limits_w"])

    def _window(self) -> str:
        return f"__GlobalPowerLimitOptimizer_{self.power_limits[self._place]}"


def HFGlobalPowerLimitOptimizer(monitor: ZeusMonitor, *arguments: Any, **keywords: Any) -> Any:
    """Returns a callback for the Trainer of Hugging Face, which drives a GlobalPowerLimitOptimizer of these arguments."""
    return callbacks.huggingface(GlobalPowerLimitOptimizer(monitor, *arguments, **keywords))


def _hold_limits(gpus: List[int]) -> Lines:
    """Leases the GPUs from lulld; where none runs, as root without it."""
    words: Tuple[str, ...] = ("limit", "hold", "--gpus", ",".join(str(gpu) for gpu in gpus))
    try:
        return Lines(*words, patience_s=SETTING_S)
    except LullError:
        if os.geteuid() != 0:
            raise
    return Lines(*words, "--no-daemon", patience_s=SETTING_S)


def _limits(gpus: List[Dict[str, Any]], step: int) -> List[int]:
    """Limits to try, from the highest down: at most the one that is set, and possible on all GPUs."""
    highest = min(gpu["power_limit_max_w"] if gpu["power_limit_w"] is None else gpu["power_limit_w"] for gpu in gpus)
    lowest = max(gpu["power_limit_min_w"] for gpu in gpus)
    return list(range(int(highest), math.ceil(lowest) - 1, -step))


def _distributed() -> Any:
    """torch.distributed of a job of several ranks; else None."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return torch.distributed


def _all_reduce(values: List[float], operation: str) -> List[float]:
    distributed = _distributed()
    if distributed is None:
        return values
    torch: Any = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(tensor, op=getattr(distributed.ReduceOp, operation.upper()))
    reduced: List[float] = tensor.cpu().tolist()
    return reduced


def _job_gpus(monitor: ZeusMonitor) -> int:
    """The GPUs whose energy is added up."""
    return int(round(sum(_all_reduce([float(len(monitor.gpu_indices))], "sum"))))


# ---- what has no equivalent ----

_ALTERNATIVES = {
    "PowerMonitor": "`lull serve` and `lull run --scalars` have the power over time",
    "TemperatureMonitor": "`lull serve` and `lull run --scalars` have the temperature over time",
    "PowerStreamingClient": "`lull serve` streams the power of a node",
    "CarbonEmissionMonitor": "`lull run --co2-g-per-kwh G` reports the carbon of a run",
    "EnergyCostMonitor": "`lull run --price-per-kwh PRICE` reports the cost of a run",
    "EnergyHistogram": "`lull serve` has metrics for Prometheus",
    "EnergyCumulativeCounter": "`lull serve` has metrics for Prometheus",
    "PowerGauge": "`lull serve` has metrics for Prometheus",
    "BatchSizeOptimizer": "lull.batch.run recommends the batch size of a recurring job",
    "PipelineFrequencyOptimizer": "`lull run --schedule NAME` plans the clocks of a pipeline while it runs",
    "get_gpus": "lull.devices() lists the GPUs",
    "get_cpus": "Measurement.cpu_energy has the energy of the processors",
}


def __getattr__(name: str) -> NoReturn:
    if name in _ALTERNATIVES:
        raise NotImplementedError(f"lull.zeus has no {name}: {_ALTERNATIVES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
