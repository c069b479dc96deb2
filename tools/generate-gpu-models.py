#!/usr/bin/env python3
"""Turns data/gpu_models.json into a constant C table: of the emulator (gpu_model.h), or of the
product's own model of time and power (device_curve.h).

Usage: generate-gpu-models.py emulator|curves INPUT.json OUTPUT.c
SPDX-License-Identifier: Apache-2.0
"""
import json
import sys

NO_SWITCH = 0xFFFFFFFF  # of lull_platform_slot
PEERS = {"ok": "LULL_PEERS_OK", "chipset": "LULL_PEERS_NO_CHIPSET"}
VENDORS = {
    "nvidia": "LULL_GPU_NVIDIA",
    "amd": "LULL_GPU_AMD",
    "intel": "LULL_GPU_INTEL",
}


def number(value):
    return repr(float(value))


def curve(table):
    points = ", ".join(f"{{{number(x)}, {number(y)}}}" for x, y in table)
    return f"{{.count = {len(table)}, .points = {{{points}}}}}"


def check(name, gpu):
    sm = gpu["sm"]
    steps = (sm["max"] - sm["min"]) / sm["step"]
    if steps != int(steps):
        sys.exit(f"{name}: the clock grid does not close")
    for key in ("v", "bw", "active_idle_W"):
        table = gpu[key]["table"]
        if table != sorted(table) or table[0][0] != sm["min"] or table[-1][0] != sm["max"]:
            sys.exit(f"{name}: {key}: not increasing from sm.min to sm.max")


def profile(name, kernel):
    return (f'{{.name = "{name}", .base_w = {number(kernel["B"])}, '
            f'.slope_w = {number(kernel["A"])}, .memory_ratio = {number(kernel["mem_frac"])}}}')


def stretch(table, lender, board, scale):
    """The table over the lender's clocks as one over the board's; both end at their lowest and highest clock."""
    def to(mhz):
        if mhz == lender["max"]:
            return board["max"]
        return board["min"] + (mhz - lender["min"]) * (board["max"] - board["min"]) / (lender["max"] - lender["min"])
    return [[to(mhz), value * scale] for mhz, value in table]


def memory_rate(gpu):
    return max(gpu["mem_mhz"]["list"]) * gpu["identity"]["bus_bits"]


def borrow(board, lender):
    """A board without measurements: what it does not state is the lender's, stretched over the clocks and scaled by
    the power limit."""
    made = {**lender, **board}
    for group in ("power_limit_W", "comm", "thermal"):
        made[group] = {**lender[group], **board.get(group, {})}
    busy = board.get("busy_W", {"v": made["power_limit_W"]["default"]})
    watts = busy["v"] / lender["power_limit_W"]["default"]
    for group, scale in (("v", 1), ("bw", 1), ("active_idle_W", watts)):
        made[group] = {**lender[group], "table": stretch(lender[group]["table"], lender["sm"], board["sm"], scale)}
    made["bw"]["max_GBs"] = lender["bw"]["max_GBs"] * memory_rate(board) / memory_rate(lender)
    made["idle_W"] = board.get("idle_W", {"v": lender["idle_W"]["v"] * watts})
    if made["idle_W"]["v"] > made["active_idle_W"]["table"][0][1]:
        sys.exit(f"{board['identity']['product']}: draws more idle than with a context")
    made["kernels"] = {name: {**row, "B": row["B"] * watts, "A": row["A"] * watts}
                       for name, row in lender["kernels"].items()}
    made["thermal"]["R_C_per_W"] = lender["thermal"]["R_C_per_W"] / watts
    return made


def all_gpus(document):
    """The measured models, and then the boards that borrow their curves."""
    gpus = dict(document["gpus"])
    for name, board in document["boards"].items():
        if name == "_about":
            continue
        if document["borrowed"].get(name) != board["borrows"]:
            sys.exit(f"{name}: `borrowed` and `boards` disagree about its curves")
        gpus[name] = borrow(board, document["gpus"][board["borrows"]])
    return gpus


def board_facts(known, platforms):
    """What only NVIDIA's boards have."""
    if "vbios" not in known:
        return {}
    return {
        "pci_subsystem": "0x" + known["pci_subsystem"],
        "vbios": json.dumps(known["vbios"]),
        "part_number": json.dumps(known["part"] or ""),
        "has_serial": "true" if known["serial"] else "false",
        "has_ecc": "true" if known["ecc"] else "false",
        "inforom": "{" + ", ".join(json.dumps(text or "") for text in known["inforom"]) + "}",
        "bar1_mib": known["bar1_mib"],
        "reserved_mib": known["reserved_mib"],
        "spare_banks": known["spare_banks"],
        "peers": PEERS[known["peers"]],
        "platform": platforms.index(known["platform"]),
    }


def platform(name, known):
    slots = []
    memory_nodes = known.get("memory_nodes", [0] * len(known["gpus"]))
    for gpu, memory_node in zip(known["gpus"], memory_nodes):
        switch = NO_SWITCH if gpu["switch"] is None else gpu["switch"]
        slots.append(f'{{.domain = {gpu["domain"]}, .bus = 0x{gpu["bus"]}, .numa_node = {gpu["numa"]}, '
                     f'.bridge = {gpu["bridge"]}, .pcie_switch = {switch}u, .module = {gpu["module"]}, '
                     f'.board = {gpu["board"]}, .memory_node = {memory_node}}}')
    fields = {
        "name": json.dumps(name),
        "sockets": known["sockets"],
        "numa_nodes": known["numa_nodes"],
        "switch_level": known["switch_level"],
        "slot_count": len(slots),
        "slots": "{" + ", ".join(slots) + "}",
        "is_mesh": "true" if "mesh" in known else "false",
        "has_memory_nodes": "true" if "memory_nodes" in known else "false",
    }
    if "mesh" in known:
        fields["mesh"] = "{" + ", ".join("{" + ", ".join(map(str, row)) + "}" for row in known["mesh"]) + "}"
    elif known["links"]:
        fields["link_buses"] = "{" + ", ".join("0x" + bus for bus in known["links"]) + "}"
    return "    {\n" + "".join(f"        .{key} = {value},\n" for key, value in fields.items()) + "    },\n"


def identity(gpu):
    known = gpu["identity"]
    return {
        "vendor": VENDORS[known.get("vendor", "nvidia")],
        "dies_per_module": known.get("dies_per_module", 1),
        "product": json.dumps(known["product"]),
        "architecture": known["architecture"],
        "brand": known["brand"],
        "compute_major": known["compute"][0],
        "compute_minor": known["compute"][1],
        "sm_count": known["sms"],
        "core_count": known["cores"],
        "memory_mib": known["memory_mib"],
        "bus_bits": known["bus_bits"],
        "pci_device": "0x" + known["pci_device"],
        "nvlink_count": known["nvlinks"],
        "pcie_generation": known["pcie_generation"],
        "pcie_lanes": known.get("pcie_lanes", 16),
        "has_fan": "true" if known["fan"] else "false",
    }


def video_clocks(gpu):
    lowest, highest = gpu["identity"].get("video_mhz", [0.9 * gpu["sm"]["min"], 0.9 * gpu["sm"]["max"]])
    return {"video_min_mhz": number(lowest), "video_max_mhz": number(highest)}


def clocks_and_power(gpu):
    lock = {"not_supported": 0, "deferred": 1, "ok": 2}[gpu["mem_mhz"]["lock"]]
    memory = gpu["mem_mhz"]["list"]
    limit = gpu["power_limit_W"]
    return {
        "sm_min_mhz": number(gpu["sm"]["min"]),
        "sm_max_mhz": number(gpu["sm"]["max"]),
        "sm_step_mhz": number(gpu["sm"]["step"]),
        "memory_clock_count": len(memory),
        "memory_clocks_mhz": "{" + ", ".join(map(str, sorted(memory, reverse=True))) + "}",
        "memory_lock": lock,
        "limit_min_w": number(limit["min"]),
        "limit_max_w": number(limit["max"]),
        "limit_default_w": number(limit["default"]),
        "limit_settle_ratio": number(limit["settle"]),
        "cap_efficiency_ratio": number(limit["cap_efficiency"]),
        "idle_w": number(gpu["idle_W"]["v"]),
        "active_idle_w": curve(gpu["active_idle_W"]["table"]),
        "voltage": curve(gpu["v"]["table"]),
        "bandwidth": curve(gpu["bw"]["table"]),
        "bandwidth_gbs": number(gpu["bw"]["max_GBs"]),
    }


def kernels(gpu):
    rows = [profile(name, kernel) for name, kernel in gpu["kernels"].items()]
    return {"profile_count": len(rows), "profiles": "{" + ", ".join(rows) + "}"}


# Their numbers in NVML.
WORKLOAD_PROFILES = (
    "MAX_P MAX_Q COMPUTE MEMORY_BOUND NETWORK BALANCED LLM_INFERENCE LLM_TRAINING RBM DCPCIE HMMA_SPARSE HMMA_DENSE "
    "SYNC_BALANCED HPC MIG").split()


def workload_profiles(gpu):
    if "workload_profiles" not in gpu:
        return {}
    profiles = gpu["workload_profiles"]
    return {
        "workload_profiles": sum(1 << WORKLOAD_PROFILES.index(name) for name in profiles["list"]),
        "max_q_speed_ratio": number(profiles["max_q_speed"]),
        "max_q_energy_ratio": number(profiles["max_q_energy"]),
    }


def communication_and_heat(gpu):
    comm = gpu["comm"]
    thermal = gpu["thermal"]
    return {
        "link_w": number(comm["link_W_full"]),
        "poll_w": number(comm["poll_W_per_sm"]),
        "link_gbs": number(comm["busbw_GBs"]),
        "channel_gbs": number(comm["channel_GBs"]),
        "ambient_c": number(thermal["T0_C"]),
        "heat_c_per_w": number(thermal["R_C_per_W"]),
        "heat_tau_s": number(thermal["tau_s"]),
        "leak_ratio_per_c": number(thermal["leak_pct_per_C"] / 100),
        "slowdown_c": number(thermal["sw_slow_C"]),
        "hw_slowdown_c": number(thermal["hw_slow_C"]),
        "shutdown_c": number(thermal["shutdown_C"]),
        "memory_limit_c": number(thermal.get("memory_C", 0)),
    }


def latency_and_counters(gpu):
    latency = gpu["latency"]
    counters = gpu["counters"]
    return {
        "api_ms": number(latency["api_ms_median"]),
        "api_sigma": number(latency["api_sigma"]),
        "api_min_ms": number(latency["api_clip_ms"][0]),
        "api_max_ms": number(latency["api_clip_ms"][1]),
        "settle_ms": number(latency["settle_ms_median"]),
        "settle_p99_ms": number(latency["settle_p99_ms"]),
        "settle_max_ms": number(latency["settle_max_ms"]),
        "slow_ratio": number(latency["slow_frac"]),
        "slow_min_ms": number(latency["slow_ms"][0]),
        "slow_max_ms": number(latency["slow_ms"][1]),
        "energy_period_ms": number(counters["energy_period_ms"]),
        "power_is_average": "true" if counters["power_mode"] == "average" else "false",
        "power_window_ms": number(counters["power_window_ms"]),
        "power_refresh_ms": number(counters["power_refresh_ms"]),
        "clock_refresh_ms": number(counters["clock_refresh_ms"]),
        "gain_error_ratio": number(counters["gain_err_pct"] / 100),
    }


def model(name, gpu, platforms):
    check(name, gpu)
    aliases = gpu["aliases"]
    fields = {
        "name": json.dumps(name),
        "borrowed": json.dumps(gpu.get("borrows", "")),
        "alias_count": len(aliases),
        "aliases": "{" + ", ".join(map(json.dumps, aliases)) + "}",
        **identity(gpu),
        **board_facts(gpu["identity"], platforms),
        **video_clocks(gpu),
        **clocks_and_power(gpu),
        **kernels(gpu),
        **workload_profiles(gpu),
        "smoothing_floor_ratio": number(gpu.get("power_smoothing", {}).get("max_floor", 0)),
        **communication_and_heat(gpu),
        **latency_and_counters(gpu),
    }
    lines = "".join(f"        .{key} = {value},\n" for key, value in fields.items())
    return "    {\n" + lines + "    },\n"


def write_models(target, document):
    gpus = all_gpus(document)
    platforms = {name: known for name, known in document["platforms"].items() if name != "_about"}
    target.write('#include "emulator/gpu_model.h"\n#include "emulator/topology.h"\n\n')
    target.write("const struct lull_gpu_model lull_gpu_models[] = {\n")
    target.writelines(model(name, gpu, list(platforms)) for name, gpu in gpus.items())
    target.write(f"}};\nconst uint32_t lull_gpu_model_count = {len(gpus)};\n\n")
    target.write("const struct lull_platform lull_platforms[] = {\n")
    target.writelines(platform(name, known) for name, known in platforms.items())
    target.write("};\n")


def device_curve(name, gpu):
    check(name, gpu)
    taken = (
        "memory_mib sm_min_mhz sm_max_mhz sm_step_mhz limit_min_w limit_max_w limit_default_w limit_settle_ratio "
        "idle_w voltage bandwidth bandwidth_gbs link_w poll_w link_gbs channel_gbs").split()
    known = {**identity(gpu), **clocks_and_power(gpu), **communication_and_heat(gpu)}
    latency = gpu["latency"]
    rows = ", ".join(
        f'{{{json.dumps(kernel)}, {{{number(row["B"])}, {number(row["A"])}, {number(row["mem_frac"])}}}}}'
        for kernel, row in gpu["kernels"].items())
    fields = {
        "name": json.dumps(name),
        "borrowed": json.dumps(gpu["borrows"]) if "borrows" in gpu else "NULL",
        "is_guessed": "true" if "guessed" in gpu else "false",
        "aliases": "{" + ", ".join(map(json.dumps, gpu["aliases"])) + "}",
        **{key: known[key] for key in taken},
        "waiting_w": known["active_idle_w"],
        "limit_work_ratio": known["cap_efficiency_ratio"],
        "switch_ms": number(latency["api_ms_median"] + latency["settle_ms_median"]),
        "kernel_count": len(gpu["kernels"]),
        "kernels": "{" + rows + "}",
    }
    lines = "".join(f"        .{key} = {value},\n" for key, value in fields.items())
    return "    {\n" + lines + "    },\n"


def write_curves(target, document):
    gpus = all_gpus(document)
    borrowed = {name: of for name, of in document["borrowed"].items() if name != "_about"}
    unknown = sorted(set(borrowed.values()) - set(document["gpus"]))
    if unknown:
        sys.exit(f"borrowed from models that are not there: {', '.join(unknown)}")
    target.write('#include "core/energy/device_curve.h"\n\n')
    target.write("const struct lull_device_curve lull_device_curves[] = {\n")
    target.writelines(device_curve(name, gpu) for name, gpu in gpus.items())
    target.write(f"}};\nconst uint32_t lull_device_curve_count = {len(gpus)};\n\n")
    target.write("const struct lull_device_borrowing lull_device_borrowings[] = {\n")
    target.writelines(f"    {{{json.dumps(name)}, {json.dumps(of)}}},\n" for name, of in borrowed.items())
    target.write(f"}};\nconst uint32_t lull_device_borrowing_count = {len(borrowed)};\n")


def main():
    write = {"emulator": write_models, "curves": write_curves}[sys.argv[1]]
    with open(sys.argv[2], encoding="utf-8") as source:
        document = json.load(source)
    with open(sys.argv[3], "w", encoding="utf-8") as target:
        target.write("/* Generated from gpu_models.json; do not edit. */\n")
        write(target, document)


if __name__ == "__main__":
    main()
