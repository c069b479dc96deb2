/*
 * Declarations shared by the readers of power logs: the log while it is read. Private to
 * power_log*.c. Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_POWER_LOG_READING_H
#define LULL_TRACE_POWER_LOG_READING_H

#include "base/text.h"
#include "trace/array.h"
#include "trace/columns.h"
#include "trace/decimal.h"
#include "trace/power_log.h"
#include "trace/string_set.h"
#include "trace/timestamp.h"

struct lull_power_log_state {
    const char *path;
    struct lull_power_log *log;
    int64_t interval_ns;           /* between rows without times; 0: not known */
    struct lull_string_set *names; /* of GPUs, numbered as they are in the log */
};

/* Finds the GPU of a name, new or known. Errors: LULL_E_FORMAT more than LULL_POWER_LOG_GPUS;
 * -ENOMEM. */
int lull_power_log_find_gpu(struct lull_power_log_state *state, const char *name, const char *model,
                            size_t *gpu_out, struct lull_error *err);

/* Takes a power limit of a GPU from the log, W. An impossible one is ignored. */
void lull_power_log_note_limit(struct lull_power_log_gpu *gpu, double limit_w);

/* Counts a row or cell that cannot be read. */
void lull_power_log_note_broken(struct lull_power_log_state *state, size_t line);

/* Returns whether a board can draw that much, W; counts it if not. */
bool lull_power_log_can_be(struct lull_power_log_state *state, double power_w, double highest_w);

/* Adds a reading of a GPU; one with neither power nor counter is skipped. Errors: -ENOMEM. */
int lull_power_log_add(struct lull_power_log_state *state, size_t gpu,
                       const struct lull_energy_reading *reading, struct lull_error *err);

/* Adds a window whose energy is in the log, or counts it as impossible. gpus: number of GPUs in the
 * sum; 0: unknown. Errors: -ENOMEM. */
int lull_power_log_add_window(struct lull_power_log_state *state, size_t gpu, const char *name,
                              double seconds, double energy_j, uint32_t gpus,
                              struct lull_error *err);

/* Parses an instant. shift: decimal places from the number's unit to ns; 0: by its size. -EINVAL:
 * it is none. */
int lull_power_log_time_of(const char *text, int shift, int64_t *time_ns_out);

/* Returns whether it is the header of a monitor: # and names between blanks. */
bool lull_power_log_is_monitor(const char *line);

/* Reads the rest of a file whose first line is given. */
int lull_power_log_read_monitor(struct lull_power_log_state *state, struct lull_lines *lines,
                                char *line, struct lull_error *err);
int lull_power_log_read_table(struct lull_power_log_state *state, struct lull_lines *lines,
                              char *line, struct lull_error *err);

#endif
