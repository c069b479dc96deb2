/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/energy/accounting.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "governor/energy/energy_meter.h"
#include "governor/energy/energy_windows.h"

/* Capacity for window edges that the control loop has reported and the main thread has not taken
 * yet. The main thread takes them ten times a second. */
enum { QUEUE = 1 << 15 };

struct reported {
    struct lull_event event;
    uint32_t slot;
    int32_t gpu; /* that its process was seen on; LULL_ACCOUNTING_UNSEEN, _NOWHERE */
    char name[LULL_JOB_NAME_BYTES];
};

/* One device's account, and the edges of the pass in it. */
struct metered {
    struct lull_energy_account account;
    struct lull_energy_edge begin;
    struct lull_energy_edge end;
    bool has_begin;
    bool has_end;
};

struct lull_accounting {
    struct lull_devices *devices;
    struct lull_rapl *rapl;
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t gpu_count;
    uint32_t devices_of_gpus[LULL_DEVICE_MAX_GPUS];
    struct metered gpus[LULL_DEVICE_MAX_GPUS];
    struct metered node[LULL_RAPL_KINDS];
    struct lull_energy_windows *windows;
    pthread_mutex_t lock; /* guards the queue, not what was taken out of it */
    struct reported *queue;
    struct reported *taken;
    uint32_t queued;
    uint64_t lost;
    uint64_t refused; /* edges with impossible times; the main thread's */
};

struct lull_accounting *lull_accounting_create(struct lull_devices *devices, const uint32_t *gpus,
                                               uint32_t gpu_count)
{
    struct lull_accounting *accounting = calloc(1, sizeof(*accounting));

    if (accounting == NULL)
        return NULL;
    accounting->devices = devices;
    accounting->gpu_count = gpu_count < LULL_DEVICE_MAX_GPUS ? gpu_count : LULL_DEVICE_MAX_GPUS;
    accounting->queue = calloc(QUEUE, sizeof(*accounting->queue));
    accounting->taken = calloc(QUEUE, sizeof(*accounting->taken));
    accounting->windows = lull_energy_windows_create(accounting->gpu_count);
    pthread_mutex_init(&accounting->lock, NULL);
    if (accounting->queue == NULL || accounting->taken == NULL || accounting->windows == NULL) {
        lull_accounting_destroy(accounting);
        return NULL;
    }
    for (uint32_t i = 0; i < accounting->gpu_count; i++) {
        const struct lull_energy_source source =
            lull_energy_source_of_gpu(lull_device_info(devices, gpus[i]));

        accounting->devices_of_gpus[i] = gpus[i];
        lull_energy_account_init(&accounting->gpus[i].account, &source);
    }
    return accounting;
}

void lull_accounting_destroy(struct lull_accounting *accounting)
{
    if (accounting == NULL)
        return;
    lull_energy_windows_destroy(accounting->windows);
    pthread_mutex_destroy(&accounting->lock);
    free(accounting->queue);
    free(accounting->taken);
    free(accounting);
}

void lull_accounting_begin(struct lull_accounting *accounting, int64_t now_ns,
                           struct lull_rapl *rapl)
{
    accounting->begin_ns = now_ns;
    accounting->rapl = rapl;
    for (enum lull_rapl_kind kind = 0; rapl != NULL && kind < LULL_RAPL_KINDS; kind++) {
        const struct lull_energy_source source =
            lull_energy_source_of_node(lull_rapl_zone_count(rapl, kind));

        lull_energy_account_init(&accounting->node[kind].account, &source);
    }
    lull_accounting_read_node(accounting);
}

/* ---- readings ---------------------------------------------------------------------------- */

/* Settles an edge of the pass once no later reading can change it. */
static void accounting_settle(struct metered *metered, int64_t time_ns, bool is_final,
                              struct lull_energy_edge *edge, bool *is_known)
{
    if (!*is_known && (is_final || lull_energy_account_settled_ns(&metered->account) >= time_ns))
        *is_known = lull_energy_account_at(&metered->account, time_ns, edge);
}

void lull_accounting_take(struct lull_accounting *accounting, uint32_t gpu,
                          const struct lull_sample *sample)
{
    struct metered *metered = &accounting->gpus[gpu];
    const struct lull_energy_reading reading = lull_sample_energy_reading(sample);

    lull_energy_account_take(&metered->account, &reading);
    accounting_settle(metered, accounting->begin_ns, false, &metered->begin, &metered->has_begin);
    lull_energy_windows_settle(accounting->windows, gpu, &metered->account, false);
}

void lull_accounting_read_node(struct lull_accounting *accounting)
{
    struct lull_rapl_reading reading;
    int64_t now_ns;

    if (accounting->rapl == NULL)
        return;
    lull_rapl_read(accounting->rapl, &reading);
    now_ns = lull_now_ns();
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++) {
        struct metered *metered = &accounting->node[kind];

        if (!reading.is_valid[kind])
            continue;
        lull_energy_account_take(
            &metered->account, &(struct lull_energy_reading){.time_ns = now_ns,
                                                             .has_counter = true,
                                                             .counter_j = reading.energy_j[kind]});
        accounting_settle(metered, accounting->begin_ns, false, &metered->begin,
                          &metered->has_begin);
    }
}

struct lull_accounting_so_far lull_accounting_so_far(const struct lull_accounting *accounting,
                                                     uint32_t gpu)
{
    const struct metered *metered = &accounting->gpus[gpu];
    const int64_t settled_ns = lull_energy_account_settled_ns(&metered->account);
    struct lull_accounting_so_far so_far = {.estimated_s = metered->account.estimated_s,
                                            .resets = metered->account.resets};
    struct lull_energy_edge now;

    if (!metered->has_begin || settled_ns < metered->begin.time_ns ||
        lull_energy_account_doubt(&metered->account) != LULL_ENERGY_CREDIBLE ||
        !lull_energy_account_at(&metered->account, settled_ns, &now))
        return so_far;
    so_far.is_known = true;
    so_far.time_ns = settled_ns;
    if (!metered->account.has_counter)
        so_far.estimated_s = (double)(settled_ns - metered->begin.time_ns) * 1e-9;
    so_far.energy_j = lull_energy_between(&metered->account, &metered->begin, &now).joules;
    return so_far;
}

/* ---- windows ----------------------------------------------------------------------------- */

void lull_accounting_report(struct lull_accounting *accounting,
                            const struct lull_event_segment *job, uint32_t slot, int32_t gpu,
                            const struct lull_event *event)
{
    struct reported reported = {.event = *event, .slot = slot, .gpu = gpu};

    lull_event_segment_name(job, slot, event->name, reported.name);
    pthread_mutex_lock(&accounting->lock);
    if (accounting->queued < QUEUE)
        accounting->queue[accounting->queued++] = reported;
    else
        accounting->lost++;
    pthread_mutex_unlock(&accounting->lock);
}

/* The GPUs of the job that a window counts for. */
static void accounting_find_gpus(const struct lull_accounting *accounting, int32_t gpu,
                                 uint32_t *first_out, uint32_t *count_out)
{
    *first_out = 0;
    *count_out = gpu == LULL_ACCOUNTING_NOWHERE ? 0 : accounting->gpu_count;
    if (gpu < 0 || (uint32_t)gpu >= accounting->gpu_count)
        return;
    *first_out = (uint32_t)gpu;
    *count_out = 1;
}

/* Enters an edge. Window edges from a process are not trusted: an edge outside the time from the
 * begin of the pass until now is refused. */
static void accounting_enter_reported(struct lull_accounting *accounting,
                                      const struct reported *reported)
{
    uint32_t first;
    uint32_t count;

    if (reported->event.time_ns < accounting->begin_ns || reported->event.time_ns > lull_now_ns()) {
        accounting->refused++;
        return;
    }
    accounting_find_gpus(accounting, reported->gpu, &first, &count);
    if (reported->event.kind == LULL_EVENT_WINDOW_END) {
        lull_energy_windows_close(accounting->windows,
                                  &(struct lull_energy_window){.slot = reported->slot,
                                                               .number = reported->event.bytes,
                                                               .first_gpu = first,
                                                               .gpu_count = count},
                                  reported->event.time_ns);
        return;
    }
    lull_energy_windows_open(accounting->windows,
                             &(struct lull_energy_window){.slot = reported->slot,
                                                          .number = reported->event.bytes,
                                                          .name = reported->name,
                                                          .begin_ns = reported->event.time_ns,
                                                          .first_gpu = first,
                                                          .gpu_count = count});
}

void lull_accounting_enter(struct lull_accounting *accounting)
{
    struct reported *taken;
    uint32_t count;

    pthread_mutex_lock(&accounting->lock);
    taken = accounting->queue;
    count = accounting->queued;
    accounting->queue = accounting->taken;
    accounting->queued = 0;
    pthread_mutex_unlock(&accounting->lock);
    accounting->taken = taken;
    for (uint32_t i = 0; i < count; i++)
        accounting_enter_reported(accounting, &taken[i]);
}

/* ---- the end ----------------------------------------------------------------------------- */

static void end_metered(struct lull_accounting *accounting, struct metered *metered)
{
    accounting_settle(metered, accounting->begin_ns, true, &metered->begin, &metered->has_begin);
    accounting_settle(metered, accounting->end_ns, true, &metered->end, &metered->has_end);
}

void lull_accounting_end(struct lull_accounting *accounting, int64_t end_ns)
{
    accounting->end_ns = end_ns;
    lull_accounting_enter(accounting);
    for (uint32_t i = 0; i < accounting->gpu_count; i++) {
        end_metered(accounting, &accounting->gpus[i]);
        lull_energy_windows_settle(accounting->windows, i, &accounting->gpus[i].account, true);
    }
    for (enum lull_rapl_kind kind = 0; kind < LULL_RAPL_KINDS; kind++)
        end_metered(accounting, &accounting->node[kind]);
    lull_energy_windows_end(accounting->windows);
    accounting->rapl = NULL;
}

/* ---- results ----------------------------------------------------------------------------- */

/* Energy is read once a second. If the last reading is this old at the end, the GPU was lost or its
 * driver hangs. Its energy is then unknown. */
static const double max_unread_s = 5.0;

/* Time from the last reading to the end of the pass, s; 0: too short to matter. */
static double unread_s(const struct lull_accounting *accounting, const struct metered *metered)
{
    const int64_t settled_ns = lull_energy_account_settled_ns(&metered->account);
    double seconds;

    if (settled_ns == INT64_MIN)
        return 0.0; /* there is no reading at all */
    seconds = (double)(accounting->end_ns - settled_ns) * 1e-9;
    return seconds > max_unread_s ? seconds : 0.0;
}

static void total_of(const struct lull_accounting *accounting, const struct metered *metered,
                     struct lull_accounting_total *total)
{
    struct lull_energy_figure figure;

    if (!metered->has_begin || !metered->has_end || unread_s(accounting, metered) > 0.0 ||
        lull_energy_account_doubt(&metered->account) != LULL_ENERGY_CREDIBLE)
        return;
    figure = lull_energy_between(&metered->account, &metered->begin, &metered->end);
    lull_energy_sum_add(&total->sum, &figure);
    total->is_known = true;
}

double lull_accounting_seconds(const struct lull_accounting *accounting)
{
    return (double)(accounting->end_ns - accounting->begin_ns) * 1e-9;
}

uint32_t lull_accounting_gpu_count(const struct lull_accounting *accounting)
{
    return accounting->gpu_count;
}

void lull_accounting_gpu(const struct lull_accounting *accounting, uint32_t gpu,
                         struct lull_accounting_gpu *gpu_out)
{
    const struct metered *metered = &accounting->gpus[gpu];

    *gpu_out = (struct lull_accounting_gpu){.device = accounting->devices_of_gpus[gpu],
                                            .is_counted = metered->account.has_counter,
                                            .resets = metered->account.resets,
                                            .glitches = metered->account.glitches,
                                            .refused = metered->account.refused_powers,
                                            .estimated_s = metered->account.estimated_s,
                                            .blind_s = metered->account.blind_s,
                                            .doubt = lull_energy_account_doubt(&metered->account)};
    if (metered->has_begin && metered->has_end)
        gpu_out->mean_w =
            (metered->end.energy_j - metered->begin.energy_j) / lull_accounting_seconds(accounting);
    gpu_out->has_check = lull_energy_account_check(&metered->account, &gpu_out->check_ratio);
    gpu_out->unread_s = unread_s(accounting, metered);
    total_of(accounting, metered, &gpu_out->total);
}

void lull_accounting_gpus(const struct lull_accounting *accounting,
                          struct lull_accounting_total *total_out)
{
    *total_out = (struct lull_accounting_total){0};
    for (uint32_t i = 0; i < accounting->gpu_count; i++)
        total_of(accounting, &accounting->gpus[i], total_out);
    total_out->is_known =
        accounting->gpu_count > 0 && total_out->sum.count == accounting->gpu_count;
}

void lull_accounting_node(const struct lull_accounting *accounting, enum lull_rapl_kind kind,
                          struct lull_accounting_total *total_out)
{
    *total_out = (struct lull_accounting_total){0};
    total_of(accounting, &accounting->node[kind], total_out);
}

bool lull_accounting_is_doubtful(const struct lull_accounting *accounting)
{
    for (uint32_t i = 0; i < accounting->gpu_count; i++)
        if (lull_energy_account_doubt(&accounting->gpus[i].account) != LULL_ENERGY_CREDIBLE)
            return true;
    return false;
}

uint32_t lull_accounting_row_count(const struct lull_accounting *accounting)
{
    return lull_energy_windows_row_count(accounting->windows);
}

const struct lull_accounting_row *lull_accounting_row(const struct lull_accounting *accounting,
                                                      uint32_t row)
{
    return lull_energy_windows_row(accounting->windows, row);
}

uint64_t lull_accounting_open_windows(const struct lull_accounting *accounting)
{
    return lull_energy_windows_open_windows(accounting->windows);
}

uint64_t lull_accounting_lost(const struct lull_accounting *accounting)
{
    return accounting->lost + accounting->refused + lull_energy_windows_lost(accounting->windows);
}
