/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/energy_windows.h"

#include <stdlib.h>
#include <string.h>

/* Closed windows of one process that wait for readings: some three thousand per second. */
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

struct window {
    struct window *next; /* of those that wait: a later one */
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
    struct window *open[LULL_JOB_MAX_WINDOWS]; /* by the remainder of their numbers */
    struct window *waiting;                    /* the oldest */
    struct window **last;                      /* where the next one is put */
    uint32_t waiting_count;
};

struct lull_window_book {
    uint32_t gpu_count;
    int64_t settled_ns[LULL_DEVICE_MAX_GPUS]; /* the last time that settle looked */
    struct process *processes[LULL_JOB_MAX_PROCESSES];
    uint32_t row_count;
    struct lull_accounting_row rows[LULL_ACCOUNTING_MAX_ROWS];
    uint64_t lost;
};

struct lull_window_book *lull_window_book_create(uint32_t gpu_count)
{
    struct lull_window_book *book = calloc(1, sizeof(*book));

    if (book == NULL)
        return NULL;
    book->gpu_count = gpu_count;
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++)
        book->settled_ns[i] = INT64_MIN;
    return book;
}

static void free_process(struct process *process)
{
    if (process == NULL)
        return;
    for (uint32_t i = 0; i < LULL_JOB_MAX_WINDOWS; i++)
        free(process->open[i]);
    while (process->waiting != NULL) {
        struct window *next = process->waiting->next;

        free(process->waiting);
        process->waiting = next;
    }
    free(process);
}

void lull_window_book_destroy(struct lull_window_book *book)
{
    if (book == NULL)
        return;
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        free_process(book->processes[i]);
    for (uint32_t i = 0; i < book->row_count; i++)
        free(book->rows[i].gpus);
    free(book);
}

/* ---- opening and closing ----------------------------------------------------------------- */

/* The row of a name; the last one is for all names that find no room. NULL: no memory. */
static struct lull_accounting_row *find_row(struct lull_window_book *book, const char *name)
{
    struct lull_accounting_row *row;

    if (book->row_count == LULL_ACCOUNTING_MAX_ROWS - 1)
        name = rest_name;
    for (row = book->rows; row < book->rows + book->row_count; row++)
        if (strncmp(row->name, name, sizeof(row->name) - 1) == 0)
            return row;
    if (book->row_count == LULL_ACCOUNTING_MAX_ROWS)
        return &book->rows[LULL_ACCOUNTING_MAX_ROWS - 1];
    row->gpus = calloc(book->gpu_count > 0 ? book->gpu_count : 1, sizeof(*row->gpus));
    if (row->gpus == NULL)
        return NULL;
    memcpy(row->name, name, strnlen(name, sizeof(row->name) - 1));
    book->row_count++;
    return row;
}

static struct process *find_process(struct lull_window_book *book, uint32_t slot)
{
    struct process **process = &book->processes[slot % LULL_JOB_MAX_PROCESSES];

    if (*process == NULL) {
        *process = calloc(1, sizeof(**process));
        if (*process != NULL)
            (*process)->last = &(*process)->waiting;
    }
    return *process;
}

void lull_window_book_open(struct lull_window_book *book, const struct lull_book_entry *entry)
{
    struct process *process = find_process(book, entry->slot);
    struct lull_accounting_row *row = find_row(book, entry->name);
    struct window *window =
        calloc(1, sizeof(*window) + entry->gpu_count * sizeof(window->spans[0]));
    struct window **place;

    if (process == NULL || row == NULL || window == NULL) {
        free(window);
        book->lost++;
        return;
    }
    window->number = entry->number;
    window->row = row;
    window->begin_ns = entry->begin_ns;
    window->first_gpu = entry->first_gpu;
    window->gpu_count = entry->gpu_count;
    place = &process->open[entry->number % LULL_JOB_MAX_WINDOWS];
    book->lost += *place != NULL ? 1 : 0;
    free(*place);
    *place = window;
}

/* The energy is known on all GPUs, or will not be. */
static void enter(struct window *window)
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
    row->unmeasured += window->gpu_count == 0 ? 1 : 0;
}

static void enter_oldest(struct process *process)
{
    struct window *oldest = process->waiting;

    process->waiting = oldest->next;
    if (process->waiting == NULL)
        process->last = &process->waiting;
    process->waiting_count--;
    enter(oldest);
    free(oldest);
}

void lull_window_book_close(struct lull_window_book *book, uint32_t slot, uint64_t number,
                            int64_t end_ns)
{
    struct process *process = book->processes[slot % LULL_JOB_MAX_PROCESSES];
    struct window **place = process == NULL ? NULL : &process->open[number % LULL_JOB_MAX_WINDOWS];
    struct window *window = place == NULL ? NULL : *place;

    if (window == NULL || window->number != number) {
        book->lost++;
        return;
    }
    *place = NULL;
    window->is_closed = true;
    window->end_ns = end_ns > window->begin_ns ? end_ns : window->begin_ns;
    if (process->waiting_count == WAITING)
        enter_oldest(process);
    *process->last = window;
    process->last = &window->next;
    process->waiting_count++;
}

/* ---- settling ---------------------------------------------------------------------------- */

static void settle_window(struct window *window, uint32_t gpu,
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

static bool is_settled(const struct window *window)
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
    for (struct window *window = process->waiting; window != NULL; window = window->next)
        settle_window(window, gpu, account, is_final);
    while (process->waiting != NULL && is_settled(process->waiting))
        enter_oldest(process);
}

void lull_window_book_settle(struct lull_window_book *book, uint32_t gpu,
                             const struct lull_energy_account *account, bool is_final)
{
    const int64_t settled_ns = lull_energy_account_settled_ns(account);

    if (!is_final && settled_ns == book->settled_ns[gpu])
        return;
    book->settled_ns[gpu] = settled_ns;
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        if (book->processes[i] != NULL)
            settle_process(book->processes[i], gpu, account, is_final);
}

void lull_window_book_end(struct lull_window_book *book)
{
    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        while (book->processes[i] != NULL && book->processes[i]->waiting != NULL)
            enter_oldest(book->processes[i]);
}

/* ---- what it came to --------------------------------------------------------------------- */

uint32_t lull_window_book_row_count(const struct lull_window_book *book)
{
    return book->row_count;
}

const struct lull_accounting_row *lull_window_book_row(const struct lull_window_book *book,
                                                       uint32_t row)
{
    return &book->rows[row];
}

uint64_t lull_window_book_open_windows(const struct lull_window_book *book)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < LULL_JOB_MAX_PROCESSES; i++)
        for (uint32_t j = 0; book->processes[i] != NULL && j < LULL_JOB_MAX_WINDOWS; j++)
            count += book->processes[i]->open[j] != NULL;
    return count;
}

uint64_t lull_window_book_lost(const struct lull_window_book *book)
{
    return book->lost;
}
