"""A report as `lull run` writes it after an hour, with as much in each part as it ever has. Used by tests.
SPDX-License-Identifier: Apache-2.0"""
import math

CLOCKS = [1410 - 15 * point for point in range(81)]


def step(mhz, verdict, kept=False, name="S222"):
    return {"sm_mhz": mhz, "gpu": None, "slowdown_ratio": 0.0012, "slowdown_upper_ratio": 0.004, "confidence_ratio": 0.95,
            "pairs": 4, "iterations": 60, "verdict": verdict, "step": name, "kept": kept}


def descent():
    return [step(1395, "not degraded"), step(1365, "not degraded"), step(1305, "degraded", name="S225"),
            step(1335, "undecided", name="S224"), step(1320, "not degraded", True)] + [step(1305, "degraded", name="S225")] * 59


def saving_at(mhz):
    clock = mhz / CLOCKS[0]
    return 0.62 * (1.0 - clock) - 1.1 * (1.0 - clock) ** 2


def tried(mhz, kept=False, sections=True):
    saving = saving_at(mhz) + (0.035 if sections else 0.0)
    return {"sm_mhz": mhz, "has_sections": sections, "kept": kept, "pairs": 12, "slowdown_ratio": 0.06 * (1 - mhz / 1410),
            "slowdown_half_width_ratio": 0.002, "saving_ratio": saving, "saving_low_ratio": saving - 0.006,
            "saving_high_ratio": saving + 0.006}


def lever(kind, name, gpu, mhz, saving, reason, verdict="lowered", steps=None):
    return {"lever": kind, "name": name, "gpu": gpu, "sm_mhz": mhz, "descent": steps, "verdict": verdict,
            "reason": "a slowdown at the next lower clock is not excluded" if verdict == "lowered" else
            "the run ended during the clock search", "saving_ratio": saving, "saving_reason": reason}


def section(number):
    return {"kind": "communication", "signature": f"allreduce 45.8 MiB, 8 ranks, 1 calls #{number:08x}", "name": "allreduce",
            "count": 30000, "mean_ms": 2.0 + number * 0.01, "exposed_ms": 1.5, "sm_mhz": 210 if number % 2 else 1410,
            "descent": descent(), "verdict": "lowered" if number % 2 else "not switched",
            "reason": "lowest clock of the GPU, no slowdown detected" if number % 2 else
            "1.50 ms exposed is too short to switch down and up (about 20 ms); see the steady point"}


def gpu(index):
    return {"index": index, "name": "NVIDIA A100-SXM4-40GB", "uuid": f"GPU-{index:08x}",
            "state": "managed by section, on one steady point", "highest_sm_mhz": 1410,
            "driver": {"changes": 60000, "without_effect": 0, "calls": 60000, "slow_calls": 0, "slowest_call_ms": 22.5,
                       "foreign_changes": 0, "trouble": ""}, "communicators": [], "calls": 10 ** 6, "events_lost": 0,
            "steady": {"sm_mhz": 1320, "descent": descent(), "verdict": "lowered",
                       "reason": "a slowdown at the next lower clock is not excluded"},
            "valley": [tried(mhz, mhz == 1320) for mhz in range(1395, 1095, -15)],
            "sections": [section(number) for number in range(60)]}


def wave(index, ms):
    return 150.0 + 180.0 * (math.sin(ms / 40.0 + index) > -0.3) + 8.0 * math.sin(ms / 9.0 + index)


def timeline_gpu(index, spans):
    length = 2000.0 / spans
    return {"index": index, "left_out": 3 if index == 0 else 0,
            "sections": [[i * length, i * length + 2.0, "allreduce"] for i in range(spans)],
            "lowered": [[i * length + 0.25, i * length + 1.75, 210] for i in range(spans)],
            "samples": [[5.0 * i, wave(index, 5.0 * i), 1320 if i % 7 else None] for i in range(400)]}


def energy_gpu(index):
    return {"index": index, "source": "counter", "counter_resets": 2 if index == 0 else 0,
            "estimated_seconds": 12.0 if index == 0 else 0.0, "power_check_ratio": 0.004, "energy_j": 930000.0 + 1000 * index,
            "uncertainty_j": 410.0}


def frontier():
    points = [(0.0, 0.031), (0.002, 0.074), (0.005, 0.114), (0.01, 0.131), (0.02, 0.148)]
    return [{"slowdown_ratio": slowdown, "saving_ratio": saving, "low_ratio": saving - 0.007, "high_ratio": saving + 0.007,
             "source": "measured" if slowdown < 0.01 else "predicted", "reason": None} for slowdown, saving in points] + [
        {"slowdown_ratio": 0.05, "saving_ratio": None, "low_ratio": None, "high_ratio": None, "source": None,
         "reason": "its interval is as wide as half of the energy"}]


def part(iterations, ms, joules):
    return {"iterations": iterations, "warming_iterations": 90, "iteration_ms": ms, "energy_j": joules * iterations,
            "energy_uncertainty_j": 900.0, "average_power_w": joules / ms * 1e3, "energy_per_iteration_j": joules,
            "span_s": iterations * ms * 1e-3}


def large(gpus):
    """An hour on so many GPUs."""
    return {
        "version": 2, "command": ["torchrun", "--nproc-per-node", str(gpus), "train.py", "--config", "gpt-1.3b.yaml"], "status": 0,
        "driver_version": "550.54", "tolerance_ratio": 0.01,
        "verdict": {"energy_line": "saved 11.4 % (10.8 to 12.0) of the energy per iteration; about 1.2 MJ (0.333 kWh, 0.1 EUR) less in 9000 iterations",
                    "time_line": "0.2 % slower (at most 0.7 %); 95 % confidence; 1 % allowed", "next_line": "keep lull run before this command",
                    "lowered_line": "steady 1320 MHz on all GPUs, 29871 gaps lowered to 210 MHz",
                    "sentence": "saved 11.4 % (10.8 to 12.0) of the energy per iteration, 0.2 % slower (at most 0.7 %): steady 1320 MHz on "
                    "all GPUs, 29871 gaps lowered to 210 MHz", "lowered": True, "saving_claim": "proven", "slowdown_claim": "within",
                    "basis": "pairs of blocks of iterations within this run", "saving_ratio": 0.114, "saving_low_ratio": 0.108,
                    "saving_high_ratio": 0.120, "saving_reason": None, "slowdown_ratio": 0.002, "slowdown_upper_ratio": 0.007,
                    "slowdown_allowed_ratio": 0.01, "slowdown_reason": None, "whole_run_energy_change_ratio": None},
        "unmanaged_wall_s": None, "managed_wall_s": 3610.0, "unmanaged": None, "managed": part(29600, 106.2, 248.3),
        "descent": part(4100, 106.3, 266.0), "settled": True, "settled_after_iterations": 4100, "saving_ratio": None,
        "slowdown_basis": "guard", "slowdown_ratio": 0.002, "slowdown_upper_ratio": 0.007, "confidence_ratio": 0.95,
        "guard": {"proven": True, "pairs": 210}, "frontier": frontier(),
        "tried": [tried(1410, sections=True)] + [tried(mhz, mhz == 1320) for mhz in range(1395, 1095, -15)],
        "levers": [lever("gaps", "idle 0 B, 0 ranks, 1 calls #00000001", 0, 210, 0.035, None, steps=descent()),
                   lever("steady point", "whole iterations", 0, 1320, 0.079, None, steps=descent()),
                   lever("sections", "allreduce 45.8 MiB, 8 ranks, 1 calls #1f3a0000", 0, 210, None,
                         "it was compared only together with other levers", steps=descent())] +
        [lever("sections", f"broadcast 1.0 MiB, 8 ranks, 1 calls #{i:08x}", 0, 1410, None, "it is not lowered", "unfinished",
               steps=descent()) for i in range(12)] +
        [lever("waiting ranks", "ranks that wait for later ones", 0, None, None, "it is not lowered", "not lowered")],
        "gpus": [gpu(index) for index in range(gpus)],
        "energy": {"gain_uncertainty_ratio": 0.05,
                   "run": {"seconds": 3610.0, "energy_j": 930000.0 * gpus, "uncertainty_j": 1200.0,
                           "gpus": [energy_gpu(index) for index in range(gpus)], "cpu": None, "dram": None},
                   "unmanaged_run": None, "windows": [], "open_windows": 0, "lost_windows": 0, "node_reason": "no RAPL here"},
        "cost": {"energy_kwh": 0.8333, "reason": None, "basis": "the GPUs that the job may use, from the command's start to its end",
                 "price_per_kwh": 0.3, "currency": "EUR", "money": 0.25, "co2_g_per_kwh": 380.0, "co2_g": 316.0},
        "timeline": {"length_ms": 2000.0, "iterations_ms": [106.2 * i for i in range(19)],
                     "gpus": [timeline_gpu(index, 400) for index in range(gpus)]},
        "notes": ["the NCCL of this job is old: 2.18 tells less of its operations than 2.26 does"]}


def server():
    """A server of two GPUs under an objective, whose verdict has a line about latencies in place of time."""
    report = large(2)
    report["verdict"] = dict(report["verdict"], energy_line="about 31 % saved (estimate); 0.42 J per output token, 88.1 J per request",
                             time_line="12345 requests, 0.41 % missed the objective; lowered clocks added at most 0.3 %",
                             saving_claim="estimated", saving_ratio=0.31, saving_low_ratio=None, saving_high_ratio=None, slowdown_ratio=None,
                             slowdown_upper_ratio=None, slowdown_allowed_ratio=None)
    report["serving"] = {
        "engine": "vLLM", "metrics": "http://localhost:8000/metrics", "objective": {"ttft_ms": 500.0, "tpot_ms": 50.0, "share_ratio": 0.99},
        "requests": 12400.0, "judged_requests": 12345.0, "judged_steps": None, "missed_ratio": 0.0041, "missed_bound_ratio": 0.003,
        "ttft_ms": {"p50": 120.4, "p99": 430.2, "predicted": 401.0}, "tpot_ms": {"p50": 31.2, "p99": 44.1, "predicted": 43.0},
        "prompt_tokens": 6.2e6, "output_tokens": 2.6e6, "j_per_output_token": 0.42, "j_per_output_token_reason": None,
        "j_per_request": 88.1, "j_per_request_reason": None,
        "modes_s": {"blind": 1.5, "learning": 10.0, "testing": 300.0, "proven": 2700.0, "raised": 98.5, "parked": 500.0, "working": 0.0},
        "parked_s": 498.0, "parks": 41, "saved_j": 490000.0, "saved_ratio": 0.31, "saved_basis": "the controller's model of the server",
        "saved_reason": None, "reason": "1320 MHz keep the objective",
        "gpus": [{"index": index, "park_mhz": 210, "parks": 41, "parked_s": 498.0, "saved_j": 12000.0, "first_work_ms": 31.5}
                 for index in range(2)]}
    return report
