/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/saving.h"

#include <math.h>

#include "core/stats/student.h"

/* Half of a 95 % interval is two standard deviations. */
static const double deviations = 2.0;
static const double upper_tail = 0.975;

/*
 * How much one run differs from the next, as what is known before any was repeated: a standard
 * deviation of the energy per iteration, with the weight of so many degrees of freedom. Measured by
 * the GPUs' own counters: 8 jobs of the Perseus artefact (ml-energy/zeus, branch kronos; 4 GPUs
 * A100 and 8 A40), each four times at the highest clock, scatter by 0.64 % (0.10 to 1.26 % by job).
 * Half of all pairs are within 0.27 %, 95 of 100 within 2.1 %, and the interval from here is
 * +- 2.36 %.
 */
static const double known_deviation = 0.006;
static const double known_degrees = 4.0;

/* A sensor's offset is at most this, W (what NVML promised for boards that still had a promise). */
static const double largest_offset_w = 5.0;
/*
 * Errors of a sensor at levels of power that are far apart: standard deviation, W, and the distance
 * in W over which they become independent. Readings follow the true power with R^2 > 0.999 (arXiv
 * 2312.02741), which leaves 2.3 W at most where levels from 50 to 300 W were tried; the distance is
 * chosen, not measured.
 */
static const double level_w = 2.0;
static const double level_distance_w = 50.0;

static double square(double value)
{
    return value * value;
}

static double per_iteration(const struct lull_energy_side *side, double sum)
{
    return sum / (double)side->iterations;
}

/* Mean power of one GPU, W. */
static double gpu_power_w(const struct lull_energy_side *side)
{
    return side->energy_j / side->seconds / side->gpus;
}

/* By how much runs may make the ratio of two energies differ, as half of an interval. */
static double runs_half_width(const struct lull_energy_side *reference,
                              const struct lull_energy_side *managed)
{
    const double measured = (double)(reference->runs - 1) + (double)(managed->runs - 1);
    const double degrees = known_degrees + measured;
    const double scatter =
        known_degrees * square(known_deviation) + reference->scatter + managed->scatter;

    return lull_student_quantile(upper_tail, degrees) *
           sqrt(scatter / degrees * (1.0 / reference->runs + 1.0 / managed->runs));
}

/* By how much the errors of a sensor differ between the sides' levels of power, W. */
static double level_difference_w(double distance_w)
{
    return level_w * sqrt(2.0 * (1.0 - exp(-distance_w / level_distance_w)));
}

static bool is_complete(const struct lull_energy_side *side)
{
    return side->runs > 0 && side->gpus > 0 && side->iterations > 0 && side->seconds > 0.0 &&
           side->energy_j > 0.0;
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
    power_w = gpu_power_w(reference);
    terms[LULL_ENERGY_TERM_READINGS] = energy * hypot(reference->reading_j / reference->energy_j,
                                                      managed->reading_j / managed->energy_j);
    terms[LULL_ENERGY_TERM_RUNS] = energy * runs_half_width(reference, managed);
    /* An offset of all readings adds to both energies what it does in the time that they took. */
    terms[LULL_ENERGY_TERM_OFFSET] = largest_offset_w * fabs(energy - time) / power_w;
    terms[LULL_ENERGY_TERM_LEVEL] = deviations * fmax(energy, time) *
                                    level_difference_w(fabs(gpu_power_w(managed) - power_w)) /
                                    power_w;
    terms[LULL_ENERGY_TERM_SAMPLING] =
        deviations * energy * hypot(reference->sampling_ratio, managed->sampling_ratio);
    for (int i = 0; i < LULL_ENERGY_TERMS; i++)
        sum += square(terms[i]);
    saving_out->saving_ratio = 1.0 - energy;
    saving_out->half_width_ratio = sqrt(sum);
    return true;
}
