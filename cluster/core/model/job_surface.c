/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/job_surface.h"

#include <math.h>

#include "cluster/core/model/job.h"

/* ---- a GPU at a clock --------------------------------------------------------------------- */

/* Seconds and joules of a second of work at the highest clock without a limit. */
struct spent {
    double time;
    double energy;
};

static struct spent job_surface_spend(const struct lull_job_gpu *gpu,
                                      const struct lull_job_work *work, uint32_t clock)
{
    const double waiting_w = gpu->clocks[clock].waiting_w;
    struct spent sum = {work->host_ratio, work->host_ratio * waiting_w};

    for (uint32_t i = 0; i < work->part_count; i++) {
        const struct lull_device_run run = lull_device_kernel_run(
            gpu->clocks, gpu->clock_count, &work->parts[i].kernel, gpu->limit_w, clock);
        const double time = work->parts[i].share_ratio * run.time_ratio;

        sum.time += time;
        sum.energy += time * run.watts;
    }
    return sum;
}

void lull_job_tempo(const struct lull_job_gpu *gpu, const struct lull_job_work *work,
                    struct lull_job_tempo *tempo_out)
{
    const struct spent highest = job_surface_spend(gpu, work, 0);

    for (uint32_t i = 0; i < gpu->clock_count; i++) {
        const struct lull_device_clock *clock = &gpu->clocks[i];
        const struct lull_job_transfer *transfer = &gpu->transfers[i];
        const struct spent here = job_surface_spend(gpu, work, i);

        tempo_out[i] = (struct lull_job_tempo){
            .sm_mhz = (uint32_t)clock->mhz,
            .compute_ratio = here.time / highest.time,
            .compute_w = here.energy / here.time,
            .transfer_ratio = gpu->transfers[0].rate_ratio / transfer->rate_ratio,
            .transfer_w = clock->waiting_w + transfer->watts,
            .waiting_w = clock->waiting_w,
        };
    }
}

/* ---- time and energy ---------------------------------------------------------------------- */

/* The job's own time at the highest clock with n GPUs, in units of its computation. */
struct split {
    double compute;
    double transfer;
};

double lull_job_rate_with(const struct lull_job_rates *rates, uint32_t gpus)
{
    for (uint32_t i = 0; i < rates->count; i++)
        if (rates->rows[i].gpus == gpus)
            return rates->rows[i].rate;
    return 0.0;
}

/* Splits the time by measured rates: the loss per GPU relative to the smallest number of GPUs
 * counts as communication. */
static bool split_by_rates(const struct lull_job_surface *surface, uint32_t gpus,
                           struct split *split)
{
    const struct lull_job_rates *rates = surface->rates;
    const double own = lull_job_rate_with(rates, surface->gpus);
    const double here = lull_job_rate_with(rates, gpus);
    const double alone = rates->rows[0].rate / rates->rows[0].gpus;

    if (!(own > 0.0) || !(here > 0.0))
        return false;

    const double total = surface->gpus * alone / here;

    split->compute = fmin((double)surface->gpus / gpus, total);
    split->transfer = total - split->compute;
    return true;
}

static void split_by_ring(const struct lull_job_surface *surface, uint32_t gpus,
                          struct split *split)
{
    const double most = (LULL_JOB_SYNC_GPUS - 1.0) / LULL_JOB_SYNC_GPUS;
    const double per_moved = surface->sync_ratio / (1.0 - surface->sync_ratio) / most;

    split->compute = (double)surface->gpus / gpus;
    split->transfer = per_moved * (gpus - 1.0) / gpus;
}

static bool split_time(const struct lull_job_surface *surface, uint32_t gpus, struct split *split)
{
    if (surface->rates != NULL && surface->rates->count > 0)
        return split_by_rates(surface, gpus, split);
    split_by_ring(surface, gpus, split);
    return true;
}

static int64_t job_surface_stretch(int64_t time_ns, double ratio)
{
    if (ratio == 1.0)
        return time_ns;

    const double wanted = (double)time_ns * ratio;

    if (wanted >= (double)LULL_CLUSTER_MAX_NS)
        return LULL_CLUSTER_MAX_NS;
    return wanted < 1.0 ? 1 : llround(wanted);
}

bool lull_job_surface_at(const struct lull_job_surface *surface, uint32_t gpus, uint32_t clock,
                         struct lull_job_surface_point *point_out)
{
    const struct lull_job_tempo *tempo = &surface->tempo[clock];
    struct split own;
    struct split here;

    if (!split_time(surface, surface->gpus, &own) || !split_time(surface, gpus, &here))
        return false;

    const double compute = here.compute * tempo->compute_ratio;
    const double transfer = here.transfer * tempo->transfer_ratio;
    const double unit_s = (double)surface->time_ns * 1e-9 / (own.compute + own.transfer);

    point_out->time_ns =
        job_surface_stretch(surface->time_ns, (compute + transfer) / (own.compute + own.transfer));
    point_out->energy_j =
        gpus * unit_s * (compute * tempo->compute_w + transfer * tempo->transfer_w);
    point_out->exposed_ratio = transfer / (compute + transfer);
    point_out->waiting_w = gpus * tempo->waiting_w;
    point_out->read_mb_s = surface->read_mb_s * surface->gpus * own.compute / (compute + transfer);
    return true;
}
