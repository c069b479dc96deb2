/*
 * The energy accounts of one pass: the energy of each GPU of the job, of the processors and of the
 * memory, over the whole pass and in the energy windows that the program's processes opened
 * (lull_window_begin).
 *
 * Counters are read once a second and shaped by the power readings in between
 * (core/energy/account.h). A window counts for the GPU that its process was seen on when it ended,
 * or for all of the job if it was seen on none. Windows of one name are one row, of whatever
 * process. Their edges are settled by the first readings after them, so memory use does not grow
 * with the length of the run.
 *
 * Threads: report from any; everything else only from the main thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_ACCOUNTING_H
#define LULL_GOVERNOR_ENERGY_ACCOUNTING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/account.h"
#include "device/device.h"
#include "device/rapl.h"
#include "governor/run/run_log.h"
#include "wire/event.h"

enum { LULL_ACCOUNTING_MAX_ROWS = LULL_JOB_MAX_NAMES };
enum { LULL_ACCOUNTING_UNSEEN = -1, LULL_ACCOUNTING_NOWHERE = -2 };

/* The energy of one device over the whole pass. */
struct lull_accounting_total {
    bool is_known;
    struct lull_energy_sum sum; /* one figure, or one per GPU */
};

struct lull_accounting_gpu {
    uint32_t device;
    bool is_counted;              /* measured by its own counter; otherwise from polled power */
    uint32_t resets;              /* of the counter */
    uint32_t glitches;            /* wrong readings of the counter, after which it continued */
    uint32_t refused;             /* readings of power that the GPU cannot draw */
    double estimated_s;           /* in which polled power stood in for the counter */
    double blind_s;               /* time in which neither was read */
    enum lull_energy_doubt doubt; /* reason why its energy is unknown although it was read */
    double mean_w;                /* according to its sensors, doubtful or not */
    double unread_s; /* time from the last reading to the end, if that makes its energy unknown;
                        else 0 */
    bool has_check;
    double check_ratio; /* polled power over the counter, minus 1; valid with has_check */
    struct lull_accounting_total total;
};

struct lull_accounting_row {
    char name[LULL_JOB_NAME_BYTES];
    uint64_t count;      /* windows that were closed */
    uint64_t unmeasured; /* windows whose energy is not known; the sums exclude them */
    struct lull_energy_sum all;
    struct lull_energy_sum *gpus; /* per GPU of the job, in its order */
};

struct lull_accounting; /* opaque */

/*
 * Creates the accounts of the GPUs gpus[] of the job. devices must live until destroy, and may be
 * NULL without GPUs. NULL: out of memory.
 */
struct lull_accounting *lull_accounting_create(struct lull_devices *devices, const uint32_t *gpus,
                                               uint32_t gpu_count);
void lull_accounting_destroy(struct lull_accounting *accounting);

/* Starts the pass. If rapl is given, it must live until destroy, and processors and memory are read
 * from here on. */
void lull_accounting_begin(struct lull_accounting *accounting, int64_t now_ns,
                           struct lull_rapl *rapl);

/* Takes a reading of the Nth GPU of the job: power, energy, or both. */
void lull_accounting_take(struct lull_accounting *accounting, uint32_t gpu,
                          const struct lull_sample *sample);

/* Reads processors and memory. Call it once a second, before their counters wrap around. */
void lull_accounting_read_node(struct lull_accounting *accounting);

/* Takes WINDOW_BEGIN or WINDOW_END from that slot of the job, whose process was seen on its Nth
 * GPU, or on none (LULL_ACCOUNTING_UNSEEN), or outside the job (LULL_ACCOUNTING_NOWHERE). It only
 * queues them, so it does not delay the control loop. */
void lull_accounting_report(struct lull_accounting *accounting,
                            const struct lull_event_segment *job, uint32_t slot, int32_t gpu,
                            const struct lull_event *event);

/* Enters the reported windows into the accounts. Call it a few times a second, before readings are
 * taken. */
void lull_accounting_enter(struct lull_accounting *accounting);

/* Ends the pass at that time and settles everything; the last readings have been taken. */
void lull_accounting_end(struct lull_accounting *accounting, int64_t end_ns);

/* The energy of a GPU since the start of the pass, as far as later readings cannot change it. */
struct lull_accounting_so_far {
    bool is_known;
    int64_t time_ns; /* up to here */
    double energy_j;
    double estimated_s; /* time in which polled power replaced the counter, or a missing one */
    uint32_t resets;    /* of the counter */
};
struct lull_accounting_so_far lull_accounting_so_far(const struct lull_accounting *accounting,
                                                     uint32_t gpu);

/* ---- after the end ---- */

double lull_accounting_seconds(const struct lull_accounting *accounting);
uint32_t lull_accounting_gpu_count(const struct lull_accounting *accounting);
void lull_accounting_gpu(const struct lull_accounting *accounting, uint32_t gpu,
                         struct lull_accounting_gpu *gpu_out);

/* Adds up all GPUs. The sum is unknown if the energy of one GPU is. */
void lull_accounting_gpus(const struct lull_accounting *accounting,
                          struct lull_accounting_total *total_out);
void lull_accounting_node(const struct lull_accounting *accounting, enum lull_rapl_kind kind,
                          struct lull_accounting_total *total_out);

/* Returns whether the sensors of a GPU contradict each other or the GPU's possible power. */
bool lull_accounting_is_doubtful(const struct lull_accounting *accounting);

uint32_t lull_accounting_row_count(const struct lull_accounting *accounting);
const struct lull_accounting_row *lull_accounting_row(const struct lull_accounting *accounting,
                                                      uint32_t row);

/* Return how many windows were never closed, and how many edges were lost on the way to it. */
uint64_t lull_accounting_open_windows(const struct lull_accounting *accounting);
uint64_t lull_accounting_lost(const struct lull_accounting *accounting);

#endif
