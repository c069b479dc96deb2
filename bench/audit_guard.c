/*
 * Audits the guard: many runs of one kind of job under the real controller, in virtual time. Prints
 * one JSON object. tools/audit-guard has the table of jobs and the limits that they must keep.
 *
 * Usage: audit_guard verdict|run|looks KEY=VALUE...
 *   noise=KIND:...  harm=KIND:...  (guard/noise.h, guard/harm.h)
 *   ranks= points= sections= (0: one steady point) both=0|1 free=0|1 ms= extra=
 *   straggle=SHARE straggle-every=ITERATIONS
 *   tolerance=
 *   runs= iterations= seed=
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/audit.h"

struct audit {
    struct audit_job_config job;
    uint32_t runs;
    uint32_t iterations;
    uint64_t seed;
};

uint64_t audit_run_seed(uint64_t seed, uint32_t run)
{
    return seed * UINT64_C(0x9e3779b97f4a7c15) + run;
}

double audit_mean(const double *values, uint32_t count)
{
    double sum = 0.0;

    if (count == 0)
        return 0.0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left > right) - (left < right);
}

double audit_quantile(double *values, uint32_t count, double p)
{
    if (count == 0)
        return 0.0;
    qsort(values, count, sizeof(values[0]), ascending);
    return values[(uint32_t)(p * (double)(count - 1) + 0.5)];
}

/* One KEY=VALUE; false: it is not known, or its value makes no sense. */
static bool take(struct audit *audit, const char *key, const char *value)
{
    const struct {
        const char *key;
        uint32_t *number;
    } numbers[] = {
        {"ranks", &audit->job.ranks},
        {"points", &audit->job.points},
        {"sections", &audit->job.sections},
        {"extra", &audit->job.extra_every},
        {"straggle-every", &audit->job.straggle_every},
        {"runs", &audit->runs},
        {"iterations", &audit->iterations},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].number = (uint32_t)strtoul(value, NULL, 10);
            return true;
        }
    if (strcmp(key, "noise") == 0)
        return audit_noise_parse(value, &audit->job.noise);
    if (strcmp(key, "harm") == 0)
        return audit_harm_parse(value, &audit->job.harm);
    if (strcmp(key, "both") == 0)
        audit->job.has_both = strcmp(value, "1") == 0;
    else if (strcmp(key, "free") == 0)
        audit->job.free_ranks = strcmp(value, "1") == 0;
    else if (strcmp(key, "ms") == 0)
        audit->job.iteration_ms = strtod(value, NULL);
    else if (strcmp(key, "straggle") == 0)
        audit->job.straggle = strtod(value, NULL);
    else if (strcmp(key, "tolerance") == 0)
        audit->job.tolerance_ratio = strtod(value, NULL);
    else if (strcmp(key, "seed") == 0)
        audit->seed = strtoull(value, NULL, 10);
    else
        return false;
    return true;
}

static bool take_all(struct audit *audit, char **arguments)
{
    for (; *arguments != NULL; arguments++) {
        char *equals = strchr(*arguments, '=');

        if (equals == NULL)
            return false;
        *equals = '\0';
        if (!take(audit, *arguments, equals + 1))
            return false;
    }
    return audit->job.ranks >= 1 && audit->job.ranks <= AUDIT_MAX_RANKS && audit->job.points >= 2 &&
           audit->job.points <= AUDIT_MAX_POINTS &&
           audit->job.sections <= LULL_CONTROLLER_MAX_TARGETS && audit->job.iteration_ms > 0.0 &&
           audit->job.tolerance_ratio > 0.0 && audit->runs > 0;
}

int main(int count, char **arguments)
{
    struct audit audit = {
        .job = {.ranks = 1, .points = 2, .iteration_ms = 100.0, .tolerance_ratio = 0.01},
        .runs = 200,
        .iterations = 3000,
        .seed = 1,
    };
    int result;

    if (count < 2 || !take_all(&audit, &arguments[2]) ||
        (strcmp(arguments[1], "verdict") != 0 && strcmp(arguments[1], "run") != 0 &&
         strcmp(arguments[1], "looks") != 0)) {
        fprintf(stderr,
                "usage: audit_guard verdict|run|looks KEY=VALUE...; the comment at the head of "
                "bench/audit_guard.c lists the keys\n");
        return 2;
    }
    printf("{\"runs\": %u, \"seed\": %llu, ", audit.runs, (unsigned long long)audit.seed);
    if (strcmp(arguments[1], "verdict") == 0)
        result = audit_one_verdict(&audit.job, audit.seed, audit.runs, audit.iterations);
    else if (strcmp(arguments[1], "looks") == 0)
        result = audit_looks(&audit.job, audit.seed, audit.iterations);
    else
        result = audit_whole_run(&audit.job, audit.seed, audit.runs, audit.iterations);
    printf("}\n");
    if (result < 0) {
        fprintf(stderr, "audit_guard: there is not enough memory\n");
        return 1;
    }
    return 0;
}
