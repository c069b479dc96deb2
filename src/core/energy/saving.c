/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/saving.h"

#include <math.h>

#include "core/stats/student.h"

/* Half of a 95 % interval is two standard deviations. */
static const double deviations = 2.0;
static const double upper_tail = 0.975;

/*
 * The difference of the energy per iteration between two runs is modelled by Student's t: the
 * standard deviation of a run, and the degrees of freedom, because that deviation differs from job
 * to job. Measured by the GPUs' own counters: eight jobs of the Perseus artefact (ml-energy/zeus,
 * branch kronos; 4 A100 and 8 A40), each measured four times at the highest clock, scatter by 0.64
 * % (by job 0.10 to 1.26 %). Half of all pairs differ by less than 0.27 %, and 95 of 100 by less
 * than 2.1 %; the interval that follows from these numbers is +- 2.36 %.
 */
static const double known_deviation = 0.006;
static const double known_degrees = 4.0;

/* The offset of a sensor is at most this, W, as NVIDIA states it (nvidia-smi: "accurate to within
 * +/- 5 watts"). */
static const double largest_offset_w = 5.0;
/*
 * Errors of a sensor at two levels of power: their standard deviation, W, and the distance of the
 * levels, W, over which they become independent. Readings follow the true power with R^2 > 0.999
 * (arXiv 2312.02741), which leaves 2.3 W at most where levels from 50 to 300 W were tried; */
static const double level_w = 2.0;
static const double level_distance_w = 50.0;

static double saving_square(double value)
{
    return value * value;
}

static double per_iteration(const struct lull_energy_side *side, double sum)
{
    return sum / (double)side->iterations;
}

/* Mean power of one GPU, W. */
static double saving_gpu_power_w(const struct lull_energy_side *side)
{
    return side->energy_j / side->seconds / side->gpus;
}

/* Standard deviation of the difference between a sensor's errors at two levels of power, W. */
static double level_difference_w(double distance_w)
{
    return level_w * sqrt(2.0 * (1.0 - exp(-distance_w / level_distance_w)));
}

static bool is_complete(const struct lull_energy_side *side)
{
    return side->gpus > 0 && side->iterations > 0 && side->seconds > 0.0 && side->energy_j > 0.0;
}

bool lull_energy_saving_compute(const struct lull_energy_side *reference,
                                const struct lull_energy_side *managed,
                                struct lull_energy_saving *saving_out)
{
    double *terms = saving_out->terms;
    double energy;
    double time;
    double power_w;
    double sum = 0.0;

    if (!is_complete(reference) || !is_complete(managed))
        return false;
    energy =
        per_iteration(managed, managed->energy_j) / per_iteration(reference, reference->energy_j);
    time = per_iteration(managed, managed->seconds) / per_iteration(reference, reference->seconds);
    power_w = saving_gpu_power_w(reference);
    terms[LULL_ENERGY_TERM_READINGS] = energy * hypot(reference->reading_j / reference->energy_j,
                                                      managed->reading_j / managed->energy_j);
    terms[LULL_ENERGY_TERM_RUNS] =
        energy * sqrt(2.0) * known_deviation * lull_student_quantile(upper_tail, known_degrees);
    /* An offset of w adds w times the time to each energy, so the ratio moves by this. */
    terms[LULL_ENERGY_TERM_OFFSET] = largest_offset_w * fabs(energy - time) / power_w;
    terms[LULL_ENERGY_TERM_LEVEL] =
        deviations * fmax(energy, time) *
        level_difference_w(fabs(saving_gpu_power_w(managed) - power_w)) / power_w;
    terms[LULL_ENERGY_TERM_SAMPLING] =
        deviations * energy * hypot(reference->sampling_ratio, managed->sampling_ratio);
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        sum += saving_square(terms[i]);
    saving_out->saving_ratio = 1.0 - energy;
    saving_out->half_width_ratio = sqrt(sum);
    return true;
}

double lull_energy_saving_shared_log(const struct lull_energy_saving *saving)
{
    return hypot(saving->terms[LULL_ENERGY_TERM_OFFSET], saving->terms[LULL_ENERGY_TERM_LEVEL]) /
           (1.0 - saving->saving_ratio);
}
