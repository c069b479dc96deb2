/*
 * Shared by the emulated driver libraries of all vendors: the opened node, its GPUs that a library
 * shows, the permission to set, and the effect of a set call on the GPU's physics.
 *
 * Threads: any, as the vendors promise, also a close beside other calls: they end as they began.
 * Only a process that continues to another node must have no call under way.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_DRIVER_H
#define LULL_EMULATOR_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "emulator/node.h"

/* One GPU of the node as one library shows it. */
struct lull_driver_gpu {
    uint32_t position; /* its place in the library's list */
    uint32_t index;    /* its place in the node */
    struct lull_node *node;
    struct lull_gpu_model model;
    uint64_t identity[2]; /* random bits, the same in every process and library */
    uint64_t board;       /* such bits of its board */
};

struct lull_driver_past { /* a node that a library has used before */
    struct lull_node *node;
    struct lull_driver_past *before;
};

/* The state of one library, zero-initialised except for the mutex. The vendors' interfaces have no
 * handle for it, so there is one in each process. */
struct lull_driver {
    pthread_mutex_t mutex;
    uint32_t references;
    bool was_opened; /* and perhaps closed since */
    uint32_t gpu_count;
    uint32_t loads;         /* number of reloads of the node's driver when it was opened */
    struct lull_node *node; /* also after the last close */
    struct lull_driver_past *past;
    struct lull_driver_gpu gpus[LULL_NODE_MAX_GPUS];
};

/* Returns from an exported function with the code of an entry
 * check that fails; 0 is success in all interfaces. */
#define LULL_DRIVER_CHECK(entry)                                                                   \
    do {                                                                                           \
        const int entry_code = (entry);                                                            \
                                                                                                   \
        if (entry_code != 0)                                                                       \
            return entry_code;                                                                     \
    } while (0)

/* Begins an exported function: declares a pointer to the GPU or handle, which the check sets. */
#define LULL_DRIVER_ENTER(type, name, entry)                                                       \
    const type *name;                                                                              \
                                                                                                   \
    LULL_DRIVER_CHECK(entry)

enum lull_driver_state {
    LULL_DRIVER_CLOSED,
    LULL_DRIVER_OPEN,
    LULL_DRIVER_AWAY,  /* the node's driver is being reloaded */
    LULL_DRIVER_STALE, /* it was reloaded since the library was opened */
};

/* Lets a library describe the GPU at a position; called with the driver's mutex held. */
typedef void lull_driver_describe(uint32_t position);

/*
 * Opens the node that the environment names and calls describe (unless it is NULL) for
 * each GPU of the vendor; if the node is open already, it only counts one more user. False: there
 * is no node, or it has no GPU of that vendor, as if the vendor's driver were not loaded.
 */
bool lull_driver_open(struct lull_driver *driver, enum lull_gpu_vendor vendor,
                      lull_driver_describe *describe);

/* Counts one user less; calls that begin after the last one are refused. A surplus close does
 * nothing. */
void lull_driver_close(struct lull_driver *driver);

enum lull_driver_state lull_driver_state(struct lull_driver *driver);
bool lull_driver_is_open(struct lull_driver *driver);

/* Returns whether the node that was opened is still the one that the environment names. */
bool lull_driver_is_current(struct lull_driver *driver);

/* The release of the driver on the node that the environment names; without a node the newest. May
 * be called before the library is opened. */
struct lull_release lull_driver_release(void);

/* Writes the random bits of a GPU's identity, and its UUID as NVIDIA writes it. */
void lull_driver_identify(struct lull_node *node, uint32_t index, uint64_t identity_out[2]);

enum { LULL_DRIVER_UUID_BYTES = 41 };
void lull_driver_write_uuid(const uint64_t identity[2], char uuid_out[LULL_DRIVER_UUID_BYTES]);

/* Memory of one context, before it allocates any. */
#define LULL_DRIVER_CONTEXT_BYTES (UINT64_C(512) << 20)

/* The memory of a GPU of NVIDIA; total is the sum of the others. */
struct lull_driver_memory {
    uint64_t total_bytes;
    uint64_t reserved_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
};

/* Returns how two GPUs of NVIDIA reach each other's memory. */
enum lull_gpu_peers lull_driver_peers(struct lull_node *node, uint32_t one, uint32_t other);

struct lull_driver_memory lull_driver_read_memory(struct lull_node *node, uint32_t gpu);

/* The GPU at a position; NULL: there is none. */
struct lull_driver_gpu *lull_driver_gpu_at(struct lull_driver *driver, uint32_t position);

/*
 * Applies the faults of a reading: blocks if it should hang, and returns whether it fails. code_out
 * is then the vendor's code to return. No lock is held, so a hung reading delays only its caller.
 */
bool lull_driver_has_get_fault(const struct lull_driver_gpu *gpu, int *code_out);

/* Returns whether the caller may change settings, unless a fault changes this. NVIDIA's driver
 * wants the capability CAP_SYS_ADMIN, those of AMD and Intel root, who owns their files in /sys. */
bool lull_driver_may_set(const struct lull_driver_gpu *gpu);

/* Returns whether the driver has the WPPS capability and users have access to it: then they may
 * change power profiles. */
bool lull_driver_opens_profiles(const struct lull_driver_gpu *gpu);

/* Returns whether the caller may read performance metrics, which a fault restricts. */
bool lull_driver_may_profile(const struct lull_driver_gpu *gpu);

/* Returns whether the GPU's driver lists processes, which a fault can take away. */
bool lull_driver_lists_processes(const struct lull_driver_gpu *gpu);

/* A process that has contexts on a GPU, listed once. */
struct lull_driver_process {
    int32_t pid;
    uint32_t contexts;
    uint32_t memory_mib;   /* that they have allocated */
    uint32_t busy_percent; /* of the latest period: their time, and their share of the bandwidth */
    uint32_t memory_percent;
};

/* Lists the processes that have contexts on a GPU; returns how many. processes_out has room for
 * LULL_PHYSICS_CONTEXTS. */
uint32_t lull_driver_processes(struct lull_node *node, uint32_t gpu,
                               struct lull_driver_process *processes_out);

/* Returns whether the GPU has its energy counter, which a fault can take away. */
bool lull_driver_has_energy(const struct lull_driver_gpu *gpu);

/* The value of its energy counter. */
uint64_t lull_driver_energy_mj(const struct lull_driver_gpu *gpu);

/* A reading of energy, or of power, with the faults of its sensor applied. The GPU must not be
 * between lull_node_begin and lull_node_end. */
uint64_t lull_driver_spoil_energy_mj(const struct lull_driver_gpu *gpu, uint64_t mj);
uint32_t lull_driver_spoil_power_mw(const struct lull_driver_gpu *gpu, uint32_t mw);

/* Returns whether the GPU accepts this power limit. */
bool lull_driver_accepts_limit(const struct lull_driver_gpu *gpu, double limit_w);

/*
 * The set calls take the time of the node's driver, suffer its faults and act. They return 0, or
 * the code of an injected fault.
 */
int lull_driver_lock(const struct lull_driver_gpu *gpu, uint32_t min_step, uint32_t max_step);
int lull_driver_unlock(const struct lull_driver_gpu *gpu);
int lull_driver_limit_memory(const struct lull_driver_gpu *gpu, uint32_t mhz); /* 0: no limit */
int lull_driver_set_limit(const struct lull_driver_gpu *gpu, double limit_w);

/* Sets power smoothing. */
int lull_driver_set_smoothing(const struct lull_driver_gpu *gpu,
                              const struct lull_physics_smoothing *smoothing);

/* Removes workload power profiles from those requested, then adds others. */
int lull_driver_change_profiles(const struct lull_driver_gpu *gpu, uint32_t removed,
                                uint32_t added);

#endif
