/*
 * The textual forms of what an emulated node consists of, `4xA100-SXM4-40GB` or `2xH100,2xA40`, and
 * of what is made to go wrong on it: [GPU:]NAME[=VALUE[xCOUNT][@AFTER]][,...], for example
 * `set_code=10x1,0:hang_ms=3000@50`. Without GPU a fault holds for every GPU, without COUNT it
 * never ends, without AFTER it begins at once. What counts are calls of the kind that the fault
 * spoils; for faults that happen to the GPU itself, any call, and any look of a client that waits
 * for events. off_bus, row_remap and those of ECC happen once without COUNT. VALUE off ends a
 * fault. Faults of one call of NVML have the value CALL or CALL/NUMBER:
 * `deny=nvmlDeviceSetGpuLockedClocks` returns the code 4 (no permission) or NUMBER,
 * `call_hang_ms=nvmlDeviceGetPowerUsage/3000` takes longer. Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_EMULATOR_SPEC_H
#define LULL_EMULATOR_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "emulator/gpu_model.h"
#include "emulator/release.h"

enum { LULL_NODE_MAX_GPUS = 64 };

struct lull_node_spec {
    uint32_t gpu_count;
    const struct lull_gpu_model *models[LULL_NODE_MAX_GPUS];
    uint64_t seed;     /* 0: all units are nominal and without noise */
    double time_scale; /* virtual seconds per real second, > 0 */
    double warm_w;     /* the GPUs start at the steady temperature of this power; 0: idle */
    const struct lull_release *release; /* NVIDIA's driver; NULL: the newest */
};

/*
 * Parses [COUNTx]MODEL[,...] into models and gpu_count and does not change the other fields.
 * Errors: -EINVAL, the text says at which character; LULL_E_UNSUPPORTED the model is unknown, the
 * text lists the known ones.
 */
int lull_node_spec_parse(const char *text, struct lull_node_spec *spec, struct lull_error *err);

/* The table in spec.c says what each does. */
enum lull_fault_kind {
    LULL_FAULT_SET_CODE,
    LULL_FAULT_HANG_MS,
    LULL_FAULT_READ_HANG_MS,
    LULL_FAULT_NO_EFFECT,
    LULL_FAULT_SETTLE_FACTOR,
    LULL_FAULT_NO_PERMISSION,
    LULL_FAULT_NO_ENERGY,
    LULL_FAULT_NO_PROCESSES,
    LULL_FAULT_GET_CODE,
    LULL_FAULT_ANY_USER,
    LULL_FAULT_XID,
    LULL_FAULT_LOST_MS,
    LULL_FAULT_MIG,
    LULL_FAULT_RELOAD_MS,
    LULL_FAULT_FOREIGN_MHZ,
    LULL_FAULT_FOREIGN_LIMIT_W,
    LULL_FAULT_IDLE_RESET,
    LULL_FAULT_RESET_CODE,
    LULL_FAULT_ENERGY_WRAP_J,
    LULL_FAULT_ENERGY_STUCK_J,
    LULL_FAULT_ENERGY_FACTOR,
    LULL_FAULT_POWER_W,
    LULL_FAULT_POWER_FACTOR,
    LULL_FAULT_MODULE_W,
    LULL_FAULT_SM_RESETS_MEMORY,
    LULL_FAULT_VGPU,
    LULL_FAULT_OFF_BUS,
    LULL_FAULT_ECC_CORRECTED,
    LULL_FAULT_ECC_UNCORRECTED,
    LULL_FAULT_ROW_REMAP,
    LULL_FAULT_RESTRICTED_PROFILING,
    LULL_FAULT_WPPS,
    LULL_FAULT_DENY,
    LULL_FAULT_CALL_HANG_MS,
    LULL_FAULT_KINDS,
};

/* Returns whether a fault is of one call of NVML, or happens once without COUNT. */
bool lull_fault_is_of_call(enum lull_fault_kind kind);
bool lull_fault_happens_once(enum lull_fault_kind kind);

/* The name of a kind in the textual form, and what it does, for people. */
const char *lull_fault_name(enum lull_fault_kind kind);
const char *lull_fault_help(enum lull_fault_kind kind);

enum { LULL_FAULT_ALWAYS = -1, LULL_FAULT_CALL_LENGTH = 64 };

struct lull_fault {
    double value;
    int32_t remaining; /* number of times that it still happens, or LULL_FAULT_ALWAYS */
    int32_t spared;    /* number of calls that succeed before it first happens */
};

/* One entry of the textual form; gpu -1 means every GPU. */
struct lull_fault_entry {
    int32_t gpu;
    enum lull_fault_kind kind;
    struct lull_fault fault;           /* remaining 0: it ends */
    char call[LULL_FAULT_CALL_LENGTH]; /* of faults of one call; "": all of the kind, to end them */
};

/*
 * Parses the entry at *text and moves *text beyond it and its comma; after the last entry **text is
 * 0. Errors: -EINVAL, with the entry in the text of err.
 */
int lull_fault_parse_next(const char **text, struct lull_fault_entry *entry_out,
                          struct lull_error *err);

#endif
