/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/limits/limit_table.h"

#include <math.h>

/* A setting's iteration, and how it stands to the reference's. */
struct row {
    double time_s;
    double energy_j;
    double slowdown_ratio;
    double saving_ratio;
    double cost_j;
};

static struct row row_of(const struct lull_limit_profile *profile, uint32_t index)
{
    const struct lull_limit_measure *reference = &profile->measures[0];
    const struct lull_limit_measure *measure = &profile->measures[index];
    struct row row = {
        .time_s = measure->seconds / (double)measure->iterations,
        .energy_j = measure->joules / (double)measure->iterations,
    };

    row.slowdown_ratio = row.time_s / (reference->seconds / (double)reference->iterations) - 1.0;
    row.saving_ratio = 1.0 - row.energy_j / (reference->joules / (double)reference->iterations);
    row.cost_j = lull_job_cost(&profile->selector.price, row.energy_j, row.time_s);
    return row;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *clock_json(uint32_t sm_mhz)
{
    return sm_mhz == 0 ? json_null() : json_integer(sm_mhz);
}

static json_t *row_json(const struct lull_limit_profile *profile, uint32_t index)
{
    const struct lull_limit_measure *measure = &profile->measures[index];
    const struct row row = row_of(profile, index);

    return json_pack("{s:f, s:o, s:I, s:f, s:o, s:f, s:o, s:f, s:o, s:f, s:b}", "limit_w",
                     measure->setting.limit_w, "sm_mhz", clock_json(measure->setting.sm_mhz),
                     "iterations", (json_int_t)measure->iterations, "iteration_ms",
                     row.time_s * 1e3, "iteration_half_width_ms",
                     number_or_null(lull_limit_half_width(&measure->iteration_s) * 1e3),
                     "energy_per_iteration_j", row.energy_j, "energy_half_width_j",
                     number_or_null(lull_limit_half_width(&measure->iteration_j)), "slowdown_ratio",
                     row.slowdown_ratio, "saving_ratio", number_or_null(row.saving_ratio),
                     "cost_per_iteration_j", row.cost_j, "chosen", index == profile->chosen);
}

json_t *lull_limit_table_json(const struct lull_limit_profile *profile)
{
    const struct lull_job_selector *selector = &profile->selector;
    const struct lull_limit_setting *chosen = &profile->measures[profile->chosen].setting;
    json_t *rows = json_array();

    for (uint32_t i = 0; i < profile->count; i++)
        json_array_append_new(rows, row_json(profile, i));
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:I, s:s, s:o}",
                     "program", profile->program, "gpu_name", profile->gpu_name, "gpu_count",
                     (json_int_t)profile->gpu_count, "measured_unix_s",
                     (json_int_t)profile->measured_s, "host", profile->host, "aim",
                     lull_job_aim_name(selector->aim), "eta_ratio", selector->price.eta_ratio,
                     "max_power_w", selector->price.max_power_w, "max_slowdown_ratio",
                     selector->slowdown_ratio, "chosen_limit_w", chosen->limit_w, "chosen_sm_mhz",
                     clock_json(chosen->sm_mhz), "chosen_unix_s", (json_int_t)profile->chosen_s,
                     "chosen_by", profile->chosen_by, "settings", rows);
}

void lull_limit_table_choice(const struct lull_limit_profile *profile, char *text_out, size_t size)
{
    const struct lull_job_selector *selector = &profile->selector;
    const struct lull_limit_setting *chosen = &profile->measures[profile->chosen].setting;
    char clock[32] = "";
    char why[64];

    if (chosen->sm_mhz != 0)
        snprintf(clock, sizeof(clock), " at %u MHz", chosen->sm_mhz);
    if (selector->aim == LULL_JOB_COST)
        snprintf(why, sizeof(why), "least cost, eta %.2f", selector->price.eta_ratio);
    else if (selector->aim == LULL_JOB_SLOWDOWN)
        snprintf(why, sizeof(why), "least energy, at most %.3g %% slower",
                 selector->slowdown_ratio * 100.0);
    else
        snprintf(why, sizeof(why), "least %s", lull_job_aim_name(selector->aim));
    snprintf(text_out, size, "%g W%s (%s)", chosen->limit_w, clock, why);
}

/* Half of the interval in percent of the mean, as far as it is known. */
static void print_with_width(FILE *out, double mean, double half_width)
{
    if (isfinite(half_width) && mean > 0.0)
        fprintf(out, " %11.2f +-%5.2f %%", mean, half_width / mean * 100.0);
    else
        fprintf(out, " %11.2f         ", mean);
}

void lull_limit_table_print(const struct lull_limit_profile *profile, FILE *out)
{
    fprintf(out, "  %8s %6s %10s %20s %20s %9s %9s %12s\n", "limit W", "MHz", "iterations",
            "ms/iteration", "J/iteration", "slower", "saves", "cost J");
    for (uint32_t i = 0; i < profile->count; i++) {
        const struct lull_limit_measure *measure = &profile->measures[i];
        const struct row row = row_of(profile, i);
        char clock[16] = "-";

        if (measure->setting.sm_mhz != 0)
            snprintf(clock, sizeof(clock), "%u", measure->setting.sm_mhz);
        fprintf(out, "%c %8g %6s %10llu", i == profile->chosen ? '*' : ' ',
                measure->setting.limit_w, clock, (unsigned long long)measure->iterations);
        print_with_width(out, row.time_s * 1e3, lull_limit_half_width(&measure->iteration_s) * 1e3);
        print_with_width(out, row.energy_j, lull_limit_half_width(&measure->iteration_j));
        fprintf(out, " %7.2f %% %7.2f %% %12.2f\n", row.slowdown_ratio * 100.0,
                row.saving_ratio * 100.0, row.cost_j);
    }
}
