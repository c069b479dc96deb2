/*
 * The emulated node: GPUs in one file of shared memory that every process of the node maps.
 *
 * Virtual time is CLOCK_MONOTONIC since the node's creation times its scale. Nobody drives the
 * GPUs: whoever looks at one advances it to now. Every change is prepared in a second copy and
 * becomes the state in one store, so a process may be killed anywhere and leaves either the old
 * or the new state; contexts of dead processes are closed by whoever looks next.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NODE_H
#define LULL_EMULATOR_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "emulator/fault.h"
#include "emulator/physics/physics.h"
#include "emulator/spec.h"

#define LULL_NODE_VARIABLE "LULL_EMULATED_NODE"
#define LULL_NODE_FAULT_VARIABLE "LULL_EMULATED_FAULT"

struct lull_node; /* this process's view; opaque */

/* Per-GPU settings of the driver that no physics depends on. */
enum lull_node_setting {
    LULL_NODE_PERSISTENCE,
    LULL_NODE_COMPUTE_MODE,
    LULL_NODE_STACK_RANGE_0, /* Intel: what each stack's clock is limited to */
    LULL_NODE_STACK_RANGE_1,
    LULL_NODE_SETTINGS,
};

/* What really happened, for tests and reports. */
struct lull_node_truth {
    int64_t now_ns; /* virtual */
    double energy_j;
    double power_w;
    double temperature_c;
    double sm_mhz;
    bool is_locked;
    double asked_mhz; /* where the latest request leads to */
    uint32_t contexts;
    uint64_t kernels_started;
    uint64_t kernels_started_low; /* while the clock was below the highest allowed */
    int64_t kernel_low_ns;        /* time with a kernel running there */
};

/*
 * Creates the file (mode 0600, in memory) and opens it; the creator unlinks it by
 * lull_node_remove(). Errors: -errno with the path in the text.
 */
int lull_node_create(const struct lull_node_spec *spec, struct lull_node **node_out,
                     struct lull_error *err);

/* Opens an existing node. Errors: -errno; LULL_E_FORMAT not a node of this version. */
int lull_node_open(const char *path, struct lull_node **node_out, struct lull_error *err);

/* Unmaps; the file and the node stay. */
void lull_node_close(struct lull_node *node);

/* Unlinks the file and closes. */
void lull_node_remove(struct lull_node *node);

const char *lull_node_path(const struct lull_node *node);
uint32_t lull_node_gpu_count(const struct lull_node *node);
uint64_t lull_node_seed(const struct lull_node *node);

/* Virtual now, and the real monotonic time of a virtual one. */
int64_t lull_node_now_ns(const struct lull_node *node);
int64_t lull_node_real_ns(const struct lull_node *node, int64_t virtual_ns);

/*
 * Begins work on one GPU: locks it and gives a copy advanced to now. end makes the copy the state;
 * is_change tells sleepers to work out anew when they wake. Between the two: no blocking.
 */
struct lull_physics *lull_node_begin(struct lull_node *node, uint32_t gpu);
void lull_node_end(struct lull_node *node, uint32_t gpu, bool is_change);

/* Counts changes; read between begin and end, or before sleeping. */
uint32_t lull_node_generation(struct lull_node *node, uint32_t gpu);

/* Wakes who sleeps on a GPU although nothing changed on it. */
void lull_node_wake(struct lull_node *node, uint32_t gpu);

/* Sleeps until the virtual time, or until generation is no longer the GPU's; may wake early. */
void lull_node_sleep(struct lull_node *node, uint32_t gpu, uint32_t generation,
                     int64_t until_virtual_ns);

/* Applies a driver call's effect to the GPU. */
typedef void (*lull_node_apply)(struct lull_physics *gpu, double settle_factor, const void *data);

/*
 * A set call: takes the node-wide driver lock, takes its time (api_factor times what locking
 * clocks takes), suffers the faults, applies. Gives 0, or the code of an injected fault.
 */
int lull_node_call(struct lull_node *node, uint32_t gpu, double api_factor, lull_node_apply apply,
                   const void *data);

/* Faults; remaining 0 heals. take uses one up and gives its value. */
void lull_node_set_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                         const struct lull_fault *fault);
bool lull_node_take_fault(struct lull_node *node, uint32_t gpu, enum lull_fault_kind kind,
                          double *value_out);

/* Sets the faults of a text (fault.h). Errors: -EINVAL. */
int lull_node_set_faults(struct lull_node *node, const char *text, struct lull_error *err);

uint32_t lull_node_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting);
void lull_node_set_setting(struct lull_node *node, uint32_t gpu, enum lull_node_setting setting,
                           uint32_t value);

void lull_node_read_truth(struct lull_node *node, uint32_t gpu, struct lull_node_truth *truth_out);

#endif
