/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/energy_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

/* Number of closed windows of one process that may wait for the readings after their ends, which
 * come within a second: enough for some three thousand windows per second. */
enum { WAITING = 4096 };

static const char rest_name[] = "other";

/* A window on one GPU. */
struct span {
    bool has_begin;
    bool has_end;
    struct lull_energy_edge begin;
    struct lull_energy_edge end;
    struct lull_energy_figure figure; /* once both are known */
};

struct energy_windows_window {
    struct energy_windows_window *next; /* the next one of those that wait */
    uint64_t number;
    struct lull_accounting_row *row;
    int64_t begin_ns;
    int64_t end_ns;
    bool is_closed;
    uint32_t first_gpu;
    uint32_t gpu_count;
    struct span spans[];
};

struct process {
    struct energy_windows_window
        *open[LULL_JOB_MAX_WINDOWS];       /* by the remainder of their numbers */
    struct energy_windows_window *waiting; /* the oldest */
    struct energy_windows_window **last;   /* place for the next one */
    uint32_t waiting_count;
};

struct lull_energy_windows {
    uint32_t gpu_count;
    int64_t settled_ns[LULL_DEVICE_MAX_GPUS]; /* the last time that settle looked */
    struct process *processes[LULL_JOB_MAX_PROCESSES];
    uint32_t row_count;
    struct lull_accounting_row rows[LULL_ACCOUNTING_MAX_ROWS];
    uint64_t lost;
};

struct lull_energy_windows *lull_energy_windows_create(uint32_t gpu_count)
{
    struct lull_energy_windows *windows = calloc(1, sizeof(*windows));

    if (windows == NULL)
        return NULL;
    windows->gpu_count = gpu_count;
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++)
        windows->settled_ns[i] = INT64_MIN;
    return windows;
}

static void free_process(struct process *process)
{
    if (process == NULL)
        return;
    for (uint32_t i = 0; i < LULL_JOB_MAX_WINDOWS; i++)
        free(process->open[i]);
    while (process->waiting != NULL) {
        struct energy_windows_window *next = process->waiting->next;

        free(process->waiting);
        process->waiting = next;
    }
    free(process);
}

void lull_energy_windows_destroy(struct lull_energy_windows *windows)
{
    if (windows == NULL)
        return;
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        free_process(windows->processes[i]);
    for (uint32_t i = 0; i < windows->row_count; i++)
        free(windows->rows[i].gpus);
    free(windows);
}

/* ---- opening and closing ----------------------------------------------------------------- */

/* Returns the row of a name, and creates it if there is none. The
 * last row is for all names that do not fit. NULL: out of memory. */
static struct lull_accounting_row *energy_window_find_row(struct lull_energy_windows *windows,
                                                          const char *name)
{
    struct lull_accounting_row *row;

    if (windows->row_count == LULL_ACCOUNTING_MAX_ROWS - 1)
        name = rest_name;
    for (row = windows->rows; row < windows->rows + windows->row_count; row++)
        if (strncmp(row->name, name, sizeof(row->name) - 1) == 0)
            return row;
    if (windows->row_count == LULL_ACCOUNTING_MAX_ROWS)
        return &windows->rows[LULL_ACCOUNTING_MAX_ROWS - 1];
    row->gpus = calloc(windows->gpu_count > 0 ? windows->gpu_count : 1, sizeof(*row->gpus));
    if (row->gpus == NULL)
        return NULL;
    memcpy(row->name, name, strnlen(name, sizeof(row->name) - 1));
    windows->row_count++;
    return row;
}

static struct process *find_process(struct lull_energy_windows *windows, uint32_t slot)
{
    struct process **process = &windows->processes[slot % LULL_JOB_MAX_PROCESSES];

    if (*process == NULL) {
        *process = calloc(1, sizeof(**process));
        if (*process != NULL)
            (*process)->last = &(*process)->waiting;
    }
    return *process;
}

void lull_energy_windows_open(struct lull_energy_windows *windows,
                              const struct lull_energy_window *entry)
{
    struct process *process = find_process(windows, entry->slot);
    struct lull_accounting_row *row = energy_window_find_row(windows, entry->name);
    struct energy_windows_window *window =
        calloc(1, sizeof(*window) + entry->gpu_count * sizeof(window->spans[0]));
    struct energy_windows_window **place;

    if (process == NULL || row == NULL || window == NULL) {
        free(window);
        windows->lost++;
        return;
    }
    window->number = entry->number;
    window->row = row;
    window->begin_ns = entry->begin_ns;
    window->first_gpu = entry->first_gpu;
    window->gpu_count = entry->gpu_count;
    place = &process->open[entry->number % LULL_JOB_MAX_WINDOWS];
    windows->lost += *place != NULL;
    free(*place);
    *place = window;
}

/* Adds a window to its row once its energy is known on all GPUs, or never will be. */
static void energy_window_enter(struct energy_windows_window *window)
{
    struct lull_accounting_row *row = window->row;

    row->count++;
    for (uint32_t i = 0; i < window->gpu_count; i++) {
        if (!window->spans[i].has_begin || !window->spans[i].has_end) {
            row->unmeasured++;
            return;
        }
    }
    for (uint32_t i = 0; i < window->gpu_count; i++) {
        lull_energy_sum_add(&row->gpus[window->first_gpu + i], &window->spans[i].figure);
        lull_energy_sum_add(&row->all, &window->spans[i].figure);
    }
    row->unmeasured += window->gpu_count == 0;
}

static void energy_window_enter_oldest(struct process *process)
{
    struct energy_windows_window *oldest = process->waiting;

    process->waiting = oldest->next;
    if (process->waiting == NULL)
        process->last = &process->waiting;
    process->waiting_count--;
    energy_window_enter(oldest);
    free(oldest);
}

/* Restricts a window's GPUs to those that are also among these. */
static void energy_window_narrow(struct energy_windows_window *window, uint32_t first_gpu,
                                 uint32_t gpu_count)
{
    const uint32_t first = lull_max_u32(window->first_gpu, first_gpu);
    const uint32_t end = lull_min_u32(window->first_gpu + window->gpu_count, first_gpu + gpu_count);

    window->gpu_count = end > first ? end - first : 0;
    memmove(window->spans, window->spans + (first - window->first_gpu),
            window->gpu_count * sizeof(window->spans[0]));
    window->first_gpu = first;
}

void lull_energy_windows_close(struct lull_energy_windows *windows,
                               const struct lull_energy_window *entry, int64_t end_ns)
{
    const uint64_t number = entry->number;
    struct process *process = windows->processes[entry->slot % LULL_JOB_MAX_PROCESSES];
    struct energy_windows_window **place =
        process == NULL ? NULL : &process->open[number % LULL_JOB_MAX_WINDOWS];
    struct energy_windows_window *window = place == NULL ? NULL : *place;

    if (window == NULL || window->number != number) {
        windows->lost++;
        return;
    }
    *place = NULL;
    energy_window_narrow(window, entry->first_gpu, entry->gpu_count);
    window->is_closed = true;
    window->end_ns = end_ns > window->begin_ns ? end_ns : window->begin_ns;
    if (process->waiting_count == WAITING)
        energy_window_enter_oldest(process);
    *process->last = window;
    process->last = &window->next;
    process->waiting_count++;
}

/* ---- settling ---------------------------------------------------------------------------- */

static void settle_window(struct energy_windows_window *window, uint32_t gpu,
                          const struct lull_energy_account *account, bool is_final)
{
    const int64_t settled_ns = is_final ? INT64_MAX : lull_energy_account_settled_ns(account);
    struct span *span;

    if (gpu < window->first_gpu || gpu >= window->first_gpu + window->gpu_count)
        return;
    span = &window->spans[gpu - window->first_gpu];
    if (!span->has_begin && window->begin_ns <= settled_ns)
        span->has_begin = lull_energy_account_at(account, window->begin_ns, &span->begin);
    if (!span->has_begin || span->has_end || !window->is_closed || window->end_ns > settled_ns)
        return;
    span->has_end = lull_energy_account_at(account, window->end_ns, &span->end);
    if (span->has_end)
        span->figure = lull_energy_between(account, &span->begin, &span->end);
}

static bool energy_window_is_settled(const struct energy_windows_window *window)
{
    for (uint32_t i = 0; i < window->gpu_count; i++)
        if (!window->spans[i].has_end)
            return false;
    return true;
}

static void settle_process(struct process *process, uint32_t gpu,
                           const struct lull_energy_account *account, bool is_final)
{
    for (uint32_t i = 0; i < LULL_JOB_MAX_WINDOWS; i++)
        if (process->open[i] != NULL)
            settle_window(process->open[i], gpu, account, false);
    for (struct energy_windows_window *window = process->waiting; window != NULL;
         window = window->next)
        settle_window(window, gpu, account, is_final);
    while (process->waiting != NULL && energy_window_is_settled(process->waiting))
        energy_window_enter_oldest(process);
}

void lull_energy_windows_settle(struct lull_energy_windows *windows, uint32_t gpu,
                                const struct lull_energy_account *account, bool is_final)
{
    const int64_t settled_ns = lull_energy_account_settled_ns(account);

    if (!is_final && settled_ns == windows->settled_ns[gpu])
        return;
    windows->settled_ns[gpu] = settled_ns;
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        if (windows->processes[i] != NULL)
            settle_process(windows->processes[i], gpu, account, is_final);
}

void lull_energy_windows_end(struct lull_energy_windows *windows)
{
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        while (windows->processes[i] != NULL && windows->processes[i]->waiting != NULL)
            energy_window_enter_oldest(windows->processes[i]);
}

/* ---- results ----------------------------------------------------------------------------- */

uint32_t lull_energy_windows_row_count(const struct lull_energy_windows *windows)
{
    return windows->row_count;
}

const struct lull_accounting_row *lull_energy_windows_row(const struct lull_energy_windows *windows,
                                                          uint32_t row)
{
    return &windows->rows[row];
}

uint64_t lull_energy_windows_open_windows(const struct lull_energy_windows *windows)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        for (uint32_t j = 0; windows->processes[i] != NULL && j < LULL_JOB_MAX_WINDOWS; j++)
            count += windows->processes[i]->open[j] != NULL;
    return count;
}

uint64_t lull_energy_windows_lost(const struct lull_energy_windows *windows)
{
    return windows->lost;
}
