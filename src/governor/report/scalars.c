/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/scalars.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "governor/run/run_statistics.h"

/* An older reading does not describe the present. Energy is read once a second. */
static const int64_t stale_ns = 3 * LULL_NS_PER_S;

/* Sources of the scalars of one row. */
struct scalar_source {
    struct lull_scalars *scalars;
    const struct lull_control *control;
    struct lull_run_trials *trials;
    const struct lull_boundaries *boundaries; /* NULL: no GPU is used */
    int64_t now_ns;
};

/* ---- readings ---------------------------------------------------------------------------- */

/* Finds the last reading of a field. NULL: there is none, or it is too old. */
static const struct lull_device_reading *find_reading(const struct scalar_source *source,
                                                      uint32_t gpu, uint32_t field)
{
    const struct lull_samples *samples = &lull_control_log(source->control, gpu)->samples;

    for (size_t i = samples->count; i-- > 0;) {
        const struct lull_sample *sample = &samples->items[i];

        if (sample->time_ns < source->now_ns - stale_ns)
            return NULL;
        if ((sample->reading.valid & field) != 0)
            return &sample->reading;
    }
    return NULL;
}

static double scalars_power_w(const struct scalar_source *source, uint32_t gpu)
{
    const struct lull_device_reading *const reading = find_reading(source, gpu, LULL_READING_POWER);

    return reading == NULL ? NAN : reading->power_mw * 1e-3;
}

/* The log's own, which counts from the first reading and never runs backwards. */
static double scalars_energy_j(const struct scalar_source *source, uint32_t gpu)
{
    const struct lull_device_reading *const reading =
        find_reading(source, gpu, LULL_READING_ENERGY);

    return reading == NULL ? NAN : (double)reading->energy_mj * 1e-3;
}

static double sm_mhz(const struct scalar_source *source, uint32_t gpu)
{
    const struct lull_device_reading *const reading =
        find_reading(source, gpu, LULL_READING_SM_CLOCK);

    return reading == NULL ? NAN : (double)reading->sm_mhz;
}

static double scalars_temperature_c(const struct scalar_source *source, uint32_t gpu)
{
    const struct lull_device_reading *const reading =
        find_reading(source, gpu, LULL_READING_TEMPERATURE);

    return reading == NULL ? NAN : (double)reading->temperature_c;
}

/* ---- the job ----------------------------------------------------------------------------- */

static bool scalars_is_used(const struct scalar_source *source, uint32_t gpu)
{
    return lull_control_gpu(source->control, gpu)->process >= 0;
}

/* The sum over the job's GPUs; NAN where that of one is not known, or there is none. */
static double scalars_sum(const struct scalar_source *source,
                          double (*of)(const struct scalar_source *, uint32_t))
{
    double total = 0.0;
    bool has_gpu = false;

    for (uint32_t i = 0; i < lull_control_gpu_count(source->control); i++) {
        if (!scalars_is_used(source, i))
            continue;
        total += of(source, i);
        has_gpu = true;
    }
    return has_gpu ? total : NAN;
}

static double job_power_w(const struct scalar_source *source)
{
    return scalars_sum(source, scalars_power_w);
}

static double job_energy_j(const struct scalar_source *source)
{
    return scalars_sum(source, scalars_energy_j);
}

static double scalars_iterations(const struct scalar_source *source)
{
    return source->boundaries == NULL ? NAN : (double)source->boundaries->count;
}

/* The mean of those that have ended since the row before; NAN where the job's iterations were found
 * again in between. */
static double scalars_iteration_ms(const struct scalar_source *source)
{
    const struct lull_boundaries *const boundaries = source->boundaries;
    const size_t before = source->scalars->boundaries;

    if (boundaries == NULL || source->scalars->from != boundaries || before == 0 ||
        boundaries->count <= before)
        return NAN;
    for (size_t i = before; i < boundaries->count; i++)
        if (boundaries->items[i].first)
            return NAN;
    return lull_ms_from_ns(boundaries->items[boundaries->count - 1].time_ns -
                           boundaries->items[before - 1].time_ns) /
           (double)(boundaries->count - before);
}

static double scalars_saving_ratio(const struct scalar_source *source)
{
    if (source->trials == NULL)
        return NAN;
    lull_run_trials_take(source->trials, source->control, source->now_ns - stale_ns);
    return lull_run_trials_saving(source->trials, source->control);
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *help;
    double (*value)(const struct scalar_source *source);
} of_job[] = {
    {"iterations", "Iterations of the job since Lull found them.", scalars_iterations},
    {"iteration_ms", "Length of an iteration, milliseconds: the mean since the row before.",
     scalars_iteration_ms},
    {"power_w", "Power of the job's GPUs on this node, watts.", job_power_w},
    {"energy_j", "Energy of the job's GPUs on this node since each was first read, joules.",
     job_energy_j},
    {"saving_ratio",
     "Ratio of energy per iteration saved by the accepted settings, from the trials so far.",
     scalars_saving_ratio},
};

static const struct {
    const char *name;
    const char *help;
    double (*value)(const struct scalar_source *source, uint32_t gpu);
} of_gpu[] = {
    {"power_w", "Power of the GPU, watts.", scalars_power_w},
    {"energy_j", "Energy of the GPU since it was first read, joules.", scalars_energy_j},
    {"sm_mhz", "SM clock of the GPU, megahertz.", sm_mhz},
    {"temperature_c", "Temperature of the GPU, degrees Celsius.", scalars_temperature_c},
};

enum {
    OF_JOB = sizeof(of_job) / sizeof(of_job[0]),
    OF_GPU = sizeof(of_gpu) / sizeof(of_gpu[0]),
};
_Static_assert(OF_JOB + LULL_CONTROLLER_MAX_GPUS * OF_GPU <= LULL_SCALARS_MAX,
               "a row holds the scalars of all GPUs");

uint32_t lull_scalars_list(const struct lull_control *control, struct lull_scalar *scalars_out)
{
    uint32_t count = 0;

    for (size_t i = 0; i < OF_JOB; i++) {
        struct lull_scalar *const scalar = &scalars_out[count++];

        snprintf(scalar->name, sizeof(scalar->name), "lull/%s", of_job[i].name);
        scalar->help = of_job[i].help;
    }
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(control); gpu++)
        for (size_t i = 0; i < OF_GPU; i++) {
            struct lull_scalar *const scalar = &scalars_out[count++];

            snprintf(scalar->name, sizeof(scalar->name), "lull/gpu%u/%s",
                     lull_control_gpu(control, gpu)->device, of_gpu[i].name);
            scalar->help = of_gpu[i].help;
        }
    return count;
}

void lull_scalars_take(struct lull_scalars *scalars, const struct lull_control *control,
                       struct lull_run_trials *trials, int64_t now_ns,
                       struct lull_scalar_row *row_out)
{
    const struct scalar_source source = {scalars, control, trials,
                                         lull_run_statistics_boundaries(control), now_ns};
    uint32_t count = 0;

    row_out->step = source.boundaries == NULL ? 0 : (int64_t)source.boundaries->count;
    for (size_t i = 0; i < OF_JOB; i++)
        row_out->values[count++] = of_job[i].value(&source);
    for (uint32_t gpu = 0; gpu < lull_control_gpu_count(control); gpu++)
        for (size_t i = 0; i < OF_GPU; i++)
            row_out->values[count++] =
                scalars_is_used(&source, gpu) ? of_gpu[i].value(&source, gpu) : NAN;
    scalars->from = source.boundaries;
    scalars->boundaries = source.boundaries == NULL ? 0 : source.boundaries->count;
}
