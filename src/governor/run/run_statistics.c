/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_statistics.h"

#include <math.h>

#include "base/clock.h"
#include "core/stats/student.h"
#include "governor/energy/energy_meter.h"
#include "governor/run/run_sampling.h"

/* A GPU within this many degrees C of its last temperature is warm: readings are whole degrees. */
enum { WARM_BAND_C = 1 };
/* Energy is read after this share of the section that begins at a boundary. */
static const double reading_share = 0.6;

/* Fewer iterations do not determine their scatter. */
enum { MIN_COMPARED = 3 };

static bool run_statistics_belongs(const struct lull_boundary *boundary, enum lull_run_part part)
{
    return part == LULL_RUN_PART_ALL || part == LULL_RUN_PART_WHOLE ||
           (part == LULL_RUN_PART_SETTLED) == (boundary->phase == LULL_PHASE_SETTLED);
}

/* Says which iterations count. */
struct selection {
    enum lull_run_part part;
    int64_t warm_ns; /* iterations that begin earlier are left out */
};

/* True if an iteration of this part, warm or not, lies between boundaries i and i + 1. */
static bool is_of_part(const struct lull_boundaries *boundaries, size_t i,
                       const struct selection *selection)
{
    return !boundaries->items[i + 1].first &&
           run_statistics_belongs(&boundaries->items[i], selection->part);
}

static bool is_selected(const struct lull_boundaries *boundaries, size_t i,
                        const struct selection *selection)
{
    return is_of_part(boundaries, i, selection) &&
           boundaries->items[i].time_ns >= selection->warm_ns;
}

static bool has_temperature(const struct lull_sample *sample)
{
    return (sample->reading.valid & LULL_READING_TEMPERATURE) != 0;
}

static uint32_t last_temperature_c(const struct lull_samples *samples)
{
    for (size_t i = samples->count; i-- > 0;)
        if (has_temperature(&samples->items[i]))
            return samples->items[i].reading.temperature_c;
    return 0;
}

/* When the temperature first came near its last value; INT64_MIN where it always was, or is not
 * known. Later excursions are part of the job: excluding them would exclude some of its cost. */
static int64_t warm_since_ns(const struct lull_samples *samples)
{
    const uint32_t last_c = last_temperature_c(samples);
    bool was_away = false;

    for (size_t i = 0; i < samples->count; i++) {
        const struct lull_sample *sample = &samples->items[i];
        const uint32_t at_c = sample->reading.temperature_c;

        if (!has_temperature(sample))
            continue;
        if (at_c + WARM_BAND_C >= last_c && at_c <= last_c + WARM_BAND_C)
            return was_away ? sample->time_ns : INT64_MIN;
        was_away = true;
    }
    return INT64_MIN;
}

static int64_t warm_ns(const struct lull_control *control, const struct lull_boundaries *boundaries)
{
    const size_t most = boundaries->warmup + (boundaries->count - boundaries->warmup) * 2 / 3;
    int64_t latest_ns = INT64_MIN;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        int64_t since_ns = warm_since_ns(&lull_control_log(control, i)->samples);

        if (since_ns > latest_ns)
            latest_ns = since_ns;
    }
    if (boundaries->count > boundaries->warmup && latest_ns > boundaries->items[most].time_ns)
        latest_ns = boundaries->items[most].time_ns;
    return latest_ns;
}

static size_t run_statistics_iterations_of(const struct lull_control *control, uint32_t gpu)
{
    const struct lull_boundaries *boundaries = &lull_control_log(control, gpu)->boundaries;

    return boundaries->count - boundaries->warmup;
}

/* The GPU whose rank has the most iterations represents the job: ranks wait for each other. */
static uint32_t leading_gpu(const struct lull_control *control)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < lull_control_gpu_count(control); i++)
        if (run_statistics_iterations_of(control, i) > run_statistics_iterations_of(control, best))
            best = i;
    return best;
}

const struct lull_boundaries *lull_run_statistics_boundaries(const struct lull_control *control)
{
    if (lull_control_gpu_count(control) == 0)
        return NULL;
    return &lull_control_log(control, leading_gpu(control))->boundaries;
}

bool lull_run_statistics_change(const struct lull_control *control, double *slowdown_ratio_out,
                                double *half_width_ratio_out)
{
    const struct lull_boundaries *boundaries = lull_run_statistics_boundaries(control);
    struct lull_moments sides[2] = {0}; /* ms, before and after */
    double squares = 0.0;

    if (boundaries == NULL)
        return false;
    for (size_t i = boundaries->warmup; i + 1 < boundaries->count; i++)
        if (!boundaries->items[i + 1].first)
            lull_moments_add(
                &sides[boundaries->items[i].phase == LULL_PHASE_SETTLED],
                lull_ms_from_ns(boundaries->items[i + 1].time_ns - boundaries->items[i].time_ns));
    for (int i = 0; i < 2; i++) {
        if (sides[i].count < MIN_COMPARED)
            return false;
        squares += lull_moments_variance(&sides[i]) /
                   ((double)sides[i].count * sides[i].mean * sides[i].mean);
    }
    *slowdown_ratio_out = sides[1].mean / sides[0].mean - 1.0;
    /* Using the shorter side's degrees of freedom is conservative: it makes the interval wider than
     * necessary. */
    *half_width_ratio_out =
        lull_student_quantile(0.975, fmin((double)sides[0].count, (double)sides[1].count) - 1.0) *
        sqrt(squares) * sides[1].mean / sides[0].mean;
    return true;
}

bool lull_run_statistics_energy_between(const struct lull_control *control, int64_t begin_ns,
                                        int64_t end_ns, double *energy_out)
{
    double sum_j = 0.0;

    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        double energy_j;

        if (lull_control_gpu(control, i)->process < 0)
            continue;
        if (!lull_run_log_energy_between(lull_control_log(control, i), begin_ns, end_ns, &energy_j))
            return false;
        sum_j += energy_j;
    }
    *energy_out = sum_j;
    return true;
}

int64_t lull_run_statistics_reading_offset_ns(const struct lull_control *control, uint32_t gpu)
{
    const struct lull_track *track =
        lull_controller_look_gpu(lull_control_controller(control), gpu).track;
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(track, &count);

    if (count == 0 || sections[0].first != 0)
        return 0;
    return lull_ns_from_ms(reading_share * sections[0].length_ms.mean);
}

/* Finds the energy of one GPU between two times, and how well it is known. */
static bool measure_gpu(const struct lull_control *control, uint32_t gpu, int64_t begin_ns,
                        int64_t end_ns, struct lull_energy_figure *figure_out)
{
    const struct lull_run_log *log = lull_control_log(control, gpu);
    const struct lull_energy_source source =
        lull_energy_source_of_gpu(lull_control_info(control, gpu));
    struct lull_energy_account account;
    struct lull_energy_edge begin;
    struct lull_energy_edge end;

    /* An edge counts from a time of its own, so that its energy is replaced by the run log's. */
    if (!lull_run_log_edge(log, &source, begin_ns, &begin) ||
        !lull_run_log_edge(log, &source, end_ns, &end) ||
        !lull_run_log_energy_j(log, begin_ns, &begin.energy_j) ||
        !lull_run_log_energy_j(log, end_ns, &end.energy_j))
        return false;
    lull_energy_account_init(&account, &source);
    *figure_out = lull_energy_between(&account, &begin, &end);
    return true;
}

static void measure_stretch(const struct lull_control *control, int64_t begin_ns, int64_t end_ns,
                            struct lull_run_statistics *statistics)
{
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++) {
        struct lull_energy_figure figure;

        if (lull_control_gpu(control, i)->process < 0)
            continue;
        if (measure_gpu(control, i, begin_ns, end_ns, &figure))
            lull_energy_sum_add(&statistics->measured, &figure);
        else
            statistics->has_uncertainty = false;
    }
}

/* Adds the energy of the stretch from boundary first to boundary last. */
static void run_statistics_add_stretch(const struct lull_control *control,
                                       const struct lull_boundaries *boundaries, size_t first,
                                       size_t last, struct lull_run_statistics *statistics)
{
    int64_t begin_ns = boundaries->items[first].time_ns;
    int64_t end_ns = boundaries->items[last].time_ns;
    int64_t offset_ns = lull_run_statistics_reading_offset_ns(control, leading_gpu(control));
    double energy_j;

    statistics->span_s += (double)(end_ns - begin_ns) * 1e-9;
    if (lull_run_statistics_energy_between(control, begin_ns + offset_ns, end_ns + offset_ns,
                                           &energy_j))
        statistics->energy_j += energy_j;
    else
        statistics->has_energy = false;
    measure_stretch(control, begin_ns + offset_ns, end_ns + offset_ns, statistics);
}

static void add_stretches(const struct lull_control *control,
                          const struct lull_boundaries *boundaries,
                          const struct selection *selection, struct lull_run_sampling *sampling,
                          struct lull_run_statistics *statistics)
{
    size_t i = boundaries->warmup;

    while (i + 1 < boundaries->count) {
        size_t first = i;

        while (i + 1 < boundaries->count && is_selected(boundaries, i, selection))
            i++;
        if (i > first) {
            statistics->iterations += i - first;
            run_statistics_add_stretch(control, boundaries, first, i, statistics);
            lull_run_sampling_add(sampling, control, boundaries, first, i);
        } else {
            statistics->warming += is_of_part(boundaries, i, selection);
            i++;
        }
    }
}

void lull_run_statistics_compute(const struct lull_control *control, enum lull_run_part part,
                                 struct lull_run_statistics *statistics_out)
{
    struct selection selection = {.part = part, .warm_ns = INT64_MIN};
    struct lull_run_sampling sampling = {0};
    const struct lull_boundaries *boundaries;

    *statistics_out = (struct lull_run_statistics){.has_energy = true, .has_uncertainty = true};
    if (lull_control_gpu_count(control) == 0)
        return;
    for (uint32_t i = 0; i < lull_control_gpu_count(control); i++)
        statistics_out->measured_gpus += lull_control_gpu(control, i)->process >= 0;
    boundaries = &lull_control_log(control, leading_gpu(control))->boundaries;
    if (part == LULL_RUN_PART_ALL || part == LULL_RUN_PART_SETTLED)
        selection.warm_ns = warm_ns(control, boundaries);
    add_stretches(control, boundaries, &selection, &sampling, statistics_out);
    if (statistics_out->iterations == 0) {
        statistics_out->has_energy = false;
        return;
    }
    statistics_out->iteration_ms =
        statistics_out->span_s * 1e3 / (double)statistics_out->iterations;
    if (statistics_out->has_energy)
        statistics_out->average_power_w = statistics_out->energy_j / statistics_out->span_s;
    if (part == LULL_RUN_PART_ALL || part == LULL_RUN_PART_SETTLED)
        statistics_out->sampling_ratio = lull_run_sampling_ratio(
            &sampling, control, leading_gpu(control), statistics_out->iteration_ms);
}

double lull_run_statistics_energy_per_iteration_j(const struct lull_run_statistics *statistics)
{
    return statistics->has_energy ? statistics->energy_j / (double)statistics->iterations : 0.0;
}

static struct lull_energy_side run_statistics_side_of(const struct lull_run_statistics *statistics)
{
    return (struct lull_energy_side){
        .gpus = statistics->measured_gpus,
        .iterations = statistics->iterations,
        .seconds = statistics->span_s,
        .energy_j = statistics->has_energy ? statistics->energy_j : 0.0,
        .reading_j = lull_energy_sum_uncertainty_j(&statistics->measured),
        .sampling_ratio = statistics->sampling_ratio,
    };
}

bool lull_run_statistics_saving(const struct lull_run_statistics *reference,
                                const struct lull_run_statistics *other,
                                struct lull_energy_saving *saving_out)
{
    const struct lull_energy_side before = run_statistics_side_of(reference);
    const struct lull_energy_side after = run_statistics_side_of(other);

    if (!lull_energy_saving_compute(&before, &after, saving_out))
        return false;
    if (!reference->has_uncertainty || !other->has_uncertainty)
        saving_out->half_width_ratio = NAN;
    return true;
}
