# SPDX-License-Identifier: Apache-2.0
"""What the commands of Lull print with --json, as frozen dataclasses.

Names and units are those of the documents (lull-report(1) and the other manuals). A value that is not known is None, never 0.
Fields that this version does not name are in ``document`` of the outermost object. A newer Lull may add fields.
"""
import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple, Type, TypeVar

T = TypeVar("T")
_hints: Dict[type, Dict[str, Any]] = {}


def build(kind: Type[T], document: Mapping[str, Any]) -> T:
    """Makes a dataclass of these documents from a JSON object. What the object lacks is None, or empty."""
    if kind not in _hints:
        _hints[kind] = typing.get_type_hints(kind)
    values: Dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name == "document":
            values[field.name] = document
        else:
            values[field.name] = _convert(_hints[kind][field.name], document.get(field.name))
    return kind(**values)


def _convert(hint: Any, value: Any) -> Any:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return tuple(_convert(arguments[0], part) for part in value or ())
    if value is None:
        return None
    if arguments and type(None) in arguments:
        return _convert(arguments[0], value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value)
    return value


# ---- lull gpus ----


@dataclass(frozen=True)
class Device:
    """A GPU of this node (`lull gpus`)."""

    index: int
    name: str
    uuid: str
    pci_bus_id: str
    sm_clock_mhz: Optional[int]
    sm_clock_min_mhz: Optional[int]
    sm_clock_max_mhz: Optional[int]
    memory_clock_mhz: Optional[int]
    power_w: Optional[float]
    power_limit_w: Optional[float]
    energy_j: Optional[float]
    temperature_c: Optional[int]
    utilization_ratio: Optional[float]
    reasons: Tuple[str, ...]
    capabilities: Tuple[str, ...]


# ---- a frontier, which several commands print ----


@dataclass(frozen=True)
class FrontierPoint:
    """The saving at one slowdown."""

    slowdown_ratio: float
    saving_ratio: Optional[float]
    low_ratio: Optional[float]
    high_ratio: Optional[float]
    source: Optional[str]
    reason: Optional[str]


# ---- report.json ----


@dataclass(frozen=True)
class Verdict:
    """The result of a run in one sentence and in the lines of its end, and the figures behind it."""

    sentence: str
    energy_line: Optional[str]
    time_line: Optional[str]
    next_line: Optional[str]
    lowered_line: Optional[str]
    lowered: bool
    basis: Optional[str]
    saving_claim: Optional[str]
    saving_ratio: Optional[float]
    saving_low_ratio: Optional[float]
    saving_high_ratio: Optional[float]
    saving_reason: Optional[str]
    slowdown_claim: Optional[str]
    slowdown_ratio: Optional[float]
    slowdown_upper_ratio: Optional[float]
    slowdown_allowed_ratio: Optional[float]
    slowdown_reason: Optional[str]
    saved_j: Optional[float]
    saved_j_basis: Optional[str]
    saved_j_reason: Optional[str]


@dataclass(frozen=True)
class RunPart:
    """Iterations of a run: without Lull, before the search ended, or after."""

    iterations: int
    warming_iterations: Optional[int]
    iteration_ms: Optional[float]
    energy_j: Optional[float]
    energy_uncertainty_j: Optional[float]
    average_power_w: Optional[float]
    energy_per_iteration_j: Optional[float]
    span_s: Optional[float]


@dataclass(frozen=True)
class Joules:
    """An energy with half of its 95 % interval."""

    energy_j: Optional[float]
    uncertainty_j: Optional[float]


@dataclass(frozen=True)
class GpuEnergy:
    """The energy of one GPU over a whole run."""

    index: int
    source: str
    energy_j: Optional[float]
    uncertainty_j: Optional[float]
    reason: Optional[str]


@dataclass(frozen=True)
class RunEnergy:
    """The energy of a whole run."""

    seconds: float
    energy_j: Optional[float]
    uncertainty_j: Optional[float]
    gpus: Tuple[GpuEnergy, ...]
    cpu: Optional[Joules]
    dram: Optional[Joules]


@dataclass(frozen=True)
class WindowEnergy:
    """All windows of one name."""

    name: str
    count: int
    unmeasured: int
    estimates: int
    gpu_seconds: float
    energy_j: Optional[float]
    uncertainty_j: Optional[float]


@dataclass(frozen=True)
class Energy:
    """The energy of a run and of its windows."""

    run: Optional[RunEnergy]
    unmanaged_run: Optional[RunEnergy]
    windows: Tuple[WindowEnergy, ...]
    node_reason: Optional[str]


@dataclass(frozen=True)
class GpuReport:
    """What Lull did on one GPU."""

    index: int
    name: str
    uuid: str
    state: Optional[str]
    calls: Optional[int]
    communication_ratio: Optional[float]
    switches: Optional[int]
    events_lost: Optional[int]


@dataclass(frozen=True)
class Objective:
    """Bounds of a server's latencies, and the share of requests that have to meet them."""

    ttft_ms: Optional[float]
    tpot_ms: Optional[float]
    share_ratio: float


@dataclass(frozen=True)
class Latency:
    """A latency of the requests of a run, and the predicted 99 % quantile."""

    p50: Optional[float]
    p99: Optional[float]
    predicted: Optional[float]


@dataclass(frozen=True)
class ParkedGpu:
    """A GPU of a server, while it was idle."""

    index: int
    park_mhz: Optional[int]
    parks: int
    parked_s: Optional[float]
    saved_j: Optional[float]
    first_work_ms: Optional[float]


@dataclass(frozen=True)
class Serving:
    """The server that a run managed."""

    engine: Optional[str]
    metrics: Optional[str]
    objective: Optional[Objective]
    requests: Optional[float]
    judged_requests: Optional[float]
    judged_steps: Optional[float]
    missed_ratio: Optional[float]
    missed_bound_ratio: Optional[float]
    ttft_ms: Optional[Latency]
    tpot_ms: Optional[Latency]
    prompt_tokens: Optional[float]
    output_tokens: Optional[float]
    j_per_output_token: Optional[float]
    j_per_output_token_reason: Optional[str]
    j_per_request: Optional[float]
    j_per_request_reason: Optional[str]
    modes_s: Optional[Mapping[str, float]]
    parked_s: Optional[float]
    parks: Optional[int]
    saved_j: Optional[float]
    saved_ratio: Optional[float]
    saved_basis: Optional[str]
    saved_reason: Optional[str]
    reason: Optional[str]
    gpus: Tuple[ParkedGpu, ...]


@dataclass(frozen=True)
class Report:
    """report.json of `lull run` (lull-report(1)). ``document`` has all of its fields."""

    version: int
    command: Tuple[str, ...]
    status: int
    verdict: Optional[Verdict]
    tolerance_ratio: Optional[float]
    unmanaged_wall_s: Optional[float]
    managed_wall_s: Optional[float]
    unmanaged: Optional[RunPart]
    managed: Optional[RunPart]
    descent: Optional[RunPart]
    settled: Optional[bool]
    saving_ratio: Optional[float]
    saving_lower_ratio: Optional[float]
    saving_upper_ratio: Optional[float]
    slowdown_basis: Optional[str]
    slowdown_ratio: Optional[float]
    slowdown_upper_ratio: Optional[float]
    confidence_ratio: Optional[float]
    frontier: Tuple[FrontierPoint, ...]
    gpus: Tuple[GpuReport, ...]
    energy: Optional[Energy]
    serving: Optional[Serving]
    notes: Tuple[str, ...]
    document: Mapping[str, Any]


# ---- lull simulate ----


@dataclass(frozen=True)
class SimulatedMode:
    """A simulated job in one mode, against the mode "highest"."""

    name: str
    period_ms: float
    energy_j: float
    saving_ratio: float
    slowdown_ratio: float
    worst_slowdown_ratio: Optional[float]
    within_tolerance: bool
    settled_in_period: Optional[int]
    settled_saving_ratio: Optional[float]
    settled_slowdown_ratio: Optional[float]
    settled_reason: Optional[str]
    steady_mhz: Optional[float]


@dataclass(frozen=True)
class Simulation:
    """`lull simulate`. ``document`` has all of its fields."""

    verdict: str
    within_tolerance: bool
    tolerance_ratio: float
    periods: int
    modes: Tuple[SimulatedMode, ...]
    frontier: Tuple[FrontierPoint, ...]
    document: Mapping[str, Any]


# ---- lull analyze ----


@dataclass(frozen=True)
class Prediction:
    """What all levers together would save."""

    tolerance_ratio: float
    saving_ratio: Optional[float]
    low_ratio: Optional[float]
    high_ratio: Optional[float]
    steady_mhz: Optional[float]
    steady_slowdown_ratio: Optional[float]
    steady_saving_ratio: Optional[float]


@dataclass(frozen=True)
class PhasePoint:
    """A phase at one clock."""

    sm_mhz: float
    slowdown_ratio: float
    saving_ratio: float
    power_w: float
    energy_j: float
    j_per_token: Optional[float]


@dataclass(frozen=True)
class Phase:
    """Prefill, decode or mixed steps of an inference server."""

    phase: str
    steps: Optional[int]
    kernels: int
    span_ms: float
    busy_ratio: Optional[float]
    compute_ms: float
    comm_ms: float
    exposed_ms: float
    idle_ms: float
    requests_per_step: Optional[float]
    prompt_tokens: Optional[int]
    output_tokens: Optional[int]
    full: Optional[PhasePoint]
    best: Optional[PhasePoint]
    tolerated: Optional[PhasePoint]
    energy_reason: Optional[str]


@dataclass(frozen=True)
class RankAnalysis:
    """One rank's trace."""

    file: str
    rank: Optional[int]
    world_size: Optional[int]
    gpu: Optional[str]
    kernels: int
    comm_kernels: int
    span_ms: float
    compute_ms: float
    comm_ms: float
    overlap_ms: float
    exposed_ms: float
    idle_ms: float
    iterations: Optional[int]
    iteration_ms: Optional[float]
    phases: Tuple[Phase, ...]
    phases_source: Optional[str]
    phases_reason: Optional[str]
    outside_phases_ms: Optional[float]


@dataclass(frozen=True)
class Analysis:
    """`lull analyze` of profiler traces. ``document`` has all fields; those of a timeline or of lull run's own trace.json
    are only there."""

    verdict: Optional[str]
    predicted: Optional[Prediction]
    frontier: Tuple[FrontierPoint, ...]
    ranks: Tuple[RankAnalysis, ...]
    document: Mapping[str, Any]


# ---- lull batch ----


@dataclass(frozen=True)
class BatchSize:
    """What is known of one batch size of a recurring job."""

    size: int
    runs: int
    missed: int
    cost_j: Optional[float]
    cost_deviation_j: Optional[float]
    candidate: bool


@dataclass(frozen=True)
class BatchRun:
    """One run of a recurring job."""

    run: int
    retry_of: Optional[int]
    size: int
    exploring: bool
    state: str
    energy_j: Optional[float]
    time_s: Optional[float]
    cost_j: Optional[float]
    epochs: Optional[int]
    metric: Optional[float]


@dataclass(frozen=True)
class BatchJob:
    """A recurring job. ``by_size`` and ``runs`` are empty in a list of jobs."""

    job: str
    sizes: Tuple[int, ...]
    default_size: int
    best_size: Optional[int]
    least_cost_j: Optional[float]
    eta_ratio: float
    gpu: Optional[str]
    gpu_count: Optional[int]
    run_count: int
    exploring: bool
    by_size: Tuple[BatchSize, ...]
    runs: Tuple[BatchRun, ...]
    document: Mapping[str, Any]
