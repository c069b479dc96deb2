/*
 * Logs of GPU power, plain or gzip, as tools write them:
 *
 *   tables     (columns.h) with a time and, per row or per column, power or an energy counter:
 *              nvidia-smi --query-gpu --format=csv, with units or without, Zeus's PowerMonitor
 *              (time,power0,power1,...), and what people write themselves
 *   monitors   rows between blanks under headers with #: nvidia-smi dmon (with -o DT or T, or an
 *              interval), dcgmi dmon (with an interval)
 *   windows    tables that contain energies: Zeus's log (window_name, elapsed_time,
 *              gpu0_energy), CodeCarbon's emissions.csv (run_id, duration, gpu_energy in kWh)
 *
 * Units stand in the header ([W], (mW), power_kw), or behind a number (70.5 W); without one a power
 * is in W, an energy counter in mJ as NVML has it. Times are dates, seconds since any instant or
 * times of day; without a zone they are UTC.
 *
 * Unusable values are counted and dropped: words for missing values, broken rows, and readings that
 * a board cannot have: a power of 0 or below, or above one and a half times its limit, which is the
 * row's own (power.limit), or that of its model's name, or 1800 W.
 *
 * One thread at a time; a log belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_POWER_LOG_H
#define LULL_TRACE_POWER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/energy/account.h"

enum { LULL_POWER_LOG_NAME = 64, LULL_POWER_LOG_GPUS = 1024 };

/* A window whose energy is in the log. */
struct lull_power_log_window {
    char name[LULL_POWER_LOG_NAME];
    double seconds;  /* > 0 */
    double energy_j; /* > 0 */
    uint32_t gpus;   /* number of GPUs in the sum: 1, or from the log; 0: unknown */
};

struct lull_power_log_gpu {
    char name[LULL_POWER_LOG_NAME];       /* index, UUID or column; empty: not in the log */
    char model[LULL_POWER_LOG_NAME];      /* empty: not in the log */
    double highest_w;                     /* that a reading may be */
    bool has_limit;                       /* it follows from the highest power limit in the log */
    struct lull_energy_reading *readings; /* by time, each once */
    size_t count;
    struct lull_power_log_window *windows;
    size_t window_count;
};

struct lull_power_log {
    const char *format; /* for people */
    struct lull_power_log_gpu *gpus;
    size_t gpu_count;
    bool is_windows;     /* energies are taken from the log, not integrated */
    size_t rows;         /* that have been read */
    size_t missing;      /* powers or counters that are words for missing values */
    size_t impossible;   /* that a board cannot have */
    double impossible_w; /* the first of them, W (of a window: its mean) */
    size_t broken;       /* rows or cells that cannot be read */
    size_t broken_line;  /* the first of them, from 1 */
    size_t same_time;    /* readings merged into another of the same time: the mean power */
    size_t unordered;    /* readings that came after a later one */
};

/*
 * Reads a file ("-" is standard input). interval_ns: between rows of a log without times; 0: not
 * known. Errors: LULL_E_FORMAT there are no times (and no interval), no power, no counter, no
 * reading that can be, or more than LULL_POWER_LOG_GPUS GPUs; -ENOMEM; those of lull_lines_open and
 * lull_columns_read_lines. The log is left empty then.
 */
int lull_power_log_read(const char *path, int64_t interval_ns, struct lull_power_log *log_out,
                        struct lull_error *err);
void lull_power_log_fini(struct lull_power_log *log);

/* Parses an instant as a log has it: a date, a number of seconds, milli-, micro- or nanoseconds
 * since any instant (distinguished by its size), or a time of day. -EINVAL: it is none. */
int lull_power_log_time(const char *text, int64_t *time_ns_out);

#endif
