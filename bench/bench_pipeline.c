/*
 * Measures how long the relaxation's frontier of a pipeline takes as a whole process: reading the
 * profile, building the task graph, and all points with their durations, every tenth with its
 * certificate. Prints one line of JSON.
 *
 * Usage: bench_pipeline PROFILE STAGES MICROBATCHES
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/core/pipeline/pipeline_case.h"
#include "core/pipeline/frontier/frontier.h"

enum { CERTIFIED_EVERY = 10 };

struct result {
    size_t points;
    int64_t fastest_ns;
    double fastest_j;
    double worst_gap_ratio; /* largest gap between a point and what its certificate proves */
};

static void die(const char *what)
{
    fprintf(stderr, "bench_pipeline: %s\n", what);
    exit(1);
}

static void make(struct pipeline_case *it, char **arguments, uint32_t microbatches)
{
    if (!pipeline_case_1f1b(it, arguments[1], (uint32_t)atoi(arguments[2]), microbatches,
                            PIPELINE_CASE_A100_W))
        die("cannot read the profile");
}

static void note_gap(struct result *result, double energy_j, double bound_j)
{
    if (energy_j / bound_j - 1.0 > result->worst_gap_ratio)
        result->worst_gap_ratio = energy_j / bound_j - 1.0;
}

static struct result run(const struct pipeline_case *it)
{
    struct lull_frontier *frontier = lull_frontier_create(&it->problem, NULL);
    int64_t *duration_ns = malloc(it->graph.op_count * sizeof(*duration_ns));
    struct lull_frontier_point point = {0};
    struct lull_certificate certificate;
    struct result result = {0};

    if (frontier == NULL || duration_ns == NULL ||
        lull_certificate_init(&certificate, &it->graph) != 0)
        die("no memory");
    for (; lull_frontier_next(frontier, &point) == 1; result.points++) {
        lull_frontier_durations(frontier, duration_ns);
        if (result.points % CERTIFIED_EVERY != 0)
            continue;
        lull_frontier_certify(frontier, &certificate);
        if (lull_certificate_check(&certificate, &it->graph, NULL) != 0)
            die("a certificate is wrong");
        note_gap(&result, point.energy_j,
                 lull_certificate_bound(&certificate, &it->problem, point.time_ns));
    }
    result.fastest_ns = point.time_ns;
    result.fastest_j = point.energy_j;
    lull_frontier_destroy(frontier);
    lull_certificate_fini(&certificate);
    free(duration_ns);
    return result;
}

static double cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    struct pipeline_case full;
    struct result result;
    struct rusage usage;

    if (argc != 4)
        die("usage: bench_pipeline PROFILE STAGES MICROBATCHES");
    make(&full, argv, (uint32_t)atoi(argv[3]));
    result = run(&full);
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"ops\": %zu, \"points\": %zu, \"cpu_s\": %.6f, \"rss_mib\": %.1f, "
           "\"fastest_s\": %.9f, \"fastest_j\": %.6f, \"worst_gap_ratio\": %.3g}\n",
           full.graph.op_count, result.points, cpu_s(), (double)usage.ru_maxrss / 1024.0,
           (double)result.fastest_ns * 1e-9, result.fastest_j, result.worst_gap_ratio);
    pipeline_case_fini(&full);
    return 0;
}
