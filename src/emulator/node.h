/*
 * The emulated node: GPUs in one file of shared memory that every process of the node maps.
 *
 * Virtual time is the time of CLOCK_MONOTONIC since the node's creation, multiplied by its scale.
 * No process drives the GPUs: a process that accesses one advances it to now. A change is prepared
 * in a second copy and becomes the state in one store, so a process may be killed at any point and
 * leaves either the old or the new state. The next process that accesses a GPU closes the contexts
 * of dead processes.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NODE_H
#define LULL_EMULATOR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "emulator/physics/physics.h"
#include "emulator/spec.h"
#include "emulator/topology.h"

#define LULL_NODE_FAULT_VARIABLE "LULL_EMULATED_FAULT"

struct lull_node; /* one process's view of the node; opaque */

/* Settings of the driver for each GPU on which no physics depends. */
enum lull_node_setting {
    LULL_NODE_PERSISTENCE,
    LULL_NODE_COMPUTE_MODE,
    LULL_NODE_STACK_RANGE_0, /* Intel: the range to which each stack's clock is limited */
    LULL_NODE_STACK_RANGE_1,
    LULL_NODE_PARTITIONS,         /* NVIDIA: MIG instances; 0: MIG is off */
    LULL_NODE_MEMORY_LIMIT_MHZ,   /* the limit of the memory clock; 0: none */
    LULL_NODE_ECC_OFF,            /* NVIDIA: whether ECC is off after the next reload */
    LULL_NODE_ACCOUNTING,         /* NVIDIA: whether processes are accounted */
    LULL_NODE_OPEN_CALLS,         /* NVIDIA: a bit for each call that all users may make */
    LULL_NODE_FAN_PERCENT,        /* NVIDIA: the speed set by a user; 0: automatic */
    LULL_NODE_ECC_CORRECTED,      /* NVIDIA: errors since the latest reload of the driver */
    LULL_NODE_ECC_CORRECTED_EVER, /* each count of errors is followed by that since ever */
    LULL_NODE_ECC_UNCORRECTED,
    LULL_NODE_ECC_UNCORRECTED_EVER,
    LULL_NODE_ROWS,        /* rows that are or will be remapped */
    LULL_NODE_ROW_PENDING, /* some will be at the next reload of the driver */
    LULL_NODE_AMD_PROFILE, /* AMD: the power profile as AMD SMI numbers it; 0: the default */
    LULL_NODE_SETTINGS,
};

enum { LULL_NODE_EVENTS = 16 }; /* number of events that each GPU keeps */

enum lull_node_event_kind { LULL_NODE_EVENT_XID, LULL_NODE_EVENT_MIG };

struct lull_node_event {
    enum lull_node_event_kind kind;
    uint64_t data; /* the number of an XID */
};

/* True history of a GPU since its creation, for tests and reports. */
struct lull_node_truth {
    int64_t now_ns; /* virtual time */
    double energy_j;
    double power_w;
    double gain_ratio; /* ratio of the metered values to these */
    double temperature_c;
    double sm_mhz;
    bool is_locked;
    double asked_mhz;      /* the clock to which the latest request leads */
    uint64_t requests_low; /* requests for a clock below the highest, by any process */
    uint32_t contexts;
    uint64_t kernels_started;
    uint64_t kernels_started_low; /* those that began below the highest clock allowed */
    int64_t kernel_low_ns;        /* time with a kernel running below it */
};

/*
 * Creates the file (in memory, for all users) and opens it. The creator unlinks it with
 * lull_node_remove(). Errors: -errno with the path in the text.
 */
int lull_node_create(const struct lull_node_spec *spec, struct lull_node **node_out,
                     struct lull_error *err);

/* Opens an existing node. Errors: -errno; LULL_E_FORMAT: it is not a node of this version. */
int lull_node_open(const char *path, struct lull_node **node_out, struct lull_error *err);

/* Unmaps the node from this process; the file stays. NULL is allowed. */
void lull_node_close(struct lull_node *node);

/* Unlinks the file and closes the node. NULL is allowed. */
void lull_node_remove(struct lull_node *node);

const char *lull_node_path(const struct lull_node *node);
uint32_t lull_node_gpu_count(const struct lull_node *node);
uint64_t lull_node_seed(const struct lull_node *node);

/* The release of NVIDIA's driver on the node. */
const struct lull_release *lull_node_release(const struct lull_node *node);

const struct lull_topology *lull_node_topology(const struct lull_node *node);

/* The virtual time now, and the CLOCK_MONOTONIC time that belongs to a virtual time. */
int64_t lull_node_now_ns(const struct lull_node *node);
int64_t lull_node_real_ns(const struct lull_node *node, int64_t virtual_ns);

/*
 * Begins work on one GPU: locks it and returns a copy that is advanced to now. end turns the copy
 * into the state; is_change wakes sleepers, which then compute their time again. The caller
 * must not block between the two.
 */
struct lull_physics *lull_node_begin(struct lull_node *node, uint32_t gpu);
void lull_node_end(struct lull_node *node, uint32_t gpu, bool is_change);

/* The number of changes so far; to be read between begin and end, or before sleeping. */
uint32_t lull_node_generation(struct lull_node *node, uint32_t gpu);

/* Wakes the sleepers of a GPU although nothing has changed on it. */
void lull_node_wake(struct lull_node *node, uint32_t gpu);

/* Sleeps until the virtual time, or until the GPU's generation is no longer this one; it may wake
 * early. */
void lull_node_sleep(struct lull_node *node, uint32_t gpu, uint32_t generation,
                     int64_t until_virtual_ns);

/* Applies the effect of a driver call to the GPU. */
typedef void (*lull_node_apply)(struct lull_physics *gpu, double settle_factor, const void *data);

/*
 * Makes a set call: takes the driver lock of the node, lasts api_factor times as long as a call
 * that locks clocks, suffers the faults and applies the effect. Returns 0, or the code of an
 * injected fault.
 */
int lull_node_call(struct lull_node *node, uint32_t gpu, double api_factor, lull_node_apply apply,
                   const void *data);

/* Sets a fault; remaining 0 clears it. take returns whether it happens now, and counts one use. */
void lull_node_set_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                         const struct lull_fault *fault);
bool lull_node_take_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                          double *value_out);

/* Returns whether a name is that of the present call. */
typedef bool lull_node_is_call(const char *name, const void *context);

/* Takes a fault of one call, and returns quickly whether there may be any. */
bool lull_node_take_call_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                               lull_node_is_call *is_call, const void *context, double *value_out);
bool lull_node_has_call_faults(const struct lull_node *node, uint32_t gpu);

/*
 * Applies the faults that happen to a GPU without a request: events, partitions, foreign writers, a
 * reload of the driver, loss. Call it at the start of every driver call. False: the GPU is lost.
 */
bool lull_node_visit(struct lull_node *node, uint32_t gpu);

/* The number of events so far, and the first of those that come after *seen, which it advances.
 * False: there is none. Events that are no longer kept are skipped. */
uint32_t lull_node_event_count(struct lull_node *node, uint32_t gpu);
bool lull_node_next_event(struct lull_node *node, uint32_t gpu, uint32_t *seen,
                          struct lull_node_event *event_out);

/* Takes back what was set on a GPU, as its driver does when it is loaded. */
void lull_node_reset_settings(struct lull_node *node, uint32_t gpu);

/*
 * Counts this process as a client of NVIDIA's driver, or no longer. GPUs without persistence mode
 * lose their settings when the last client is gone. One that was killed counts until the next call.
 * leave: NULL is allowed.
 */
void lull_node_join(struct lull_node *node);
void lull_node_leave(struct lull_node *node);

/* Number of reloads of the driver; whether it is loaded at present. */
uint32_t lull_node_driver_loads(const struct lull_node *node);
bool lull_node_has_driver(const struct lull_node *node);

/* Blocks the caller for the duration of a hanging fault, if it happens now. Holds no lock. */
void lull_node_hang(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind);

/*
 * Opens a context of the calling process on a GPU, which ends with the process at the latest.
 * Returns its number; -1: all are taken.
 */
int lull_node_open_context(struct lull_node *node, uint32_t gpu);

/* Sets the faults of a text (spec.h). Errors: -EINVAL; -ENOSPC: too many are of calls. */
int lull_node_set_faults(struct lull_node *node, const char *text, struct lull_error *err);

uint32_t lull_node_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting);
void lull_node_set_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting,
                           uint32_t value);

void lull_node_read_truth(struct lull_node *node, uint32_t gpu, struct lull_node_truth *truth_out);

#endif
