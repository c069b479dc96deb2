/*
 * The quality of thorough plans, against the proven bound over the whole range of deadlines, and
 * against lowtime's recorded plans at their own iteration times.
 *
 *   test_pipeline_plans bound a100|a40 STAGES MICROBATCHES DEADLINES PART PARTS
 *   test_pipeline_plans lowtime STAGES MICROBATCHES PART PARTS
 *
 * Every PARTS-th deadline, from PART on. Exit status 77: the recorded data are absent.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/rounding/rounding.h"
#include "../pipeline_case.h"

enum { SKIPPED = 77 };

#define A40_W 70.38

/* Percent of energy. */
static const double A100_GAP_MEAN = 0.1, A100_GAP_WORST = 0.4;
static const double A40_GAP_MEAN = 0.2, A40_GAP_WORST = 1.0;
static const double LOWTIME_LEAST = -0.02, LOWTIME_MEAN = 0.25;

struct planner {
    struct pipeline_case it;
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    uint32_t *point;
};

struct tally {
    unsigned count;
    double sum;
    double least;
    double most;
};

static void add(struct tally *tally, double value)
{
    if (tally->count == 0 || value < tally->least)
        tally->least = value;
    if (tally->count == 0 || value > tally->most)
        tally->most = value;
    tally->sum += value;
    tally->count++;
}

static double mean(const struct tally *tally)
{
    return tally->count > 0 ? tally->sum / tally->count : 0.0;
}

static bool begin(struct planner *planner, bool a40, uint32_t stages, uint32_t microbatches)
{
    const char *path = a40 ? LULL_SHARED_DATA "/profiles/gpt3-175b_a40_bf16.csv"
                           : LULL_SHARED_DATA "/profiles/gpt3-175b_a100_sxm_bf16.csv";

    if (!pipeline_case_1f1b(&planner->it, path, stages, microbatches,
                            a40 ? A40_W : PIPELINE_CASE_A100_W)) {
        fprintf(stderr, "skipped: no profile %s\n", path);
        return false;
    }
    planner->frontier = lull_frontier_create(&planner->it.problem, NULL);
    planner->point = calloc(planner->it.graph.op_count, sizeof(*planner->point));
    if (planner->frontier == NULL || planner->point == NULL ||
        lull_pipeline_rounding_create(&planner->it.problem, &planner->rounding) < 0)
        abort();
    return true;
}

static void end(struct planner *planner)
{
    lull_frontier_destroy(planner->frontier);
    lull_pipeline_rounding_destroy(planner->rounding);
    free(planner->point);
    pipeline_case_fini(&planner->it);
}

/* Plans for a deadline; energy and bound. False: said why. */
static bool plan(struct planner *planner, int64_t deadline_ns, double *energy_j, double *bound_j)
{
    struct lull_pipeline_cost cost;
    int rc = lull_pipeline_round_thorough(planner->rounding, planner->frontier, deadline_ns,
                                          planner->point);

    if (rc < 0) {
        fprintf(stderr, "no plan for %.6f s: %d\n", (double)deadline_ns * 1e-9, rc);
        return false;
    }
    cost = lull_pipeline_plan_cost(&planner->it.problem, planner->point, deadline_ns);
    lull_frontier_seek(planner->frontier, deadline_ns);
    *energy_j = cost.energy_j;
    *bound_j = lull_frontier_here(planner->frontier).energy_j;
    if (cost.time_ns <= deadline_ns && *energy_j >= *bound_j * (1.0 - 1e-9))
        return true;
    fprintf(stderr, "%.6f s: the plan takes %.9f s and %.6f J, the bound is %.6f J\n",
            (double)deadline_ns * 1e-9, (double)cost.time_ns * 1e-9, *energy_j, *bound_j);
    return false;
}

static int check_bound(char **args)
{
    const bool a40 = strcmp(args[0], "a40") == 0;
    const int deadlines = atoi(args[3]);
    struct planner planner = {0};
    struct tally gap = {0};
    struct lull_frontier_point point;
    int64_t slowest_ns;
    int64_t fastest_ns;
    bool good = true;

    if (!begin(&planner, a40, (uint32_t)atoi(args[1]), (uint32_t)atoi(args[2])))
        return SKIPPED;
    lull_frontier_next(planner.frontier, &point);
    slowest_ns = point.time_ns;
    while (lull_frontier_next(planner.frontier, &point) == 1)
        ;
    fastest_ns = point.time_ns;
    for (int i = atoi(args[4]); i < deadlines && good; i += atoi(args[5])) {
        double energy_j = 0.0;
        double bound_j = 1.0;

        good = plan(&planner, slowest_ns - (slowest_ns - fastest_ns) * i / (deadlines - 1),
                    &energy_j, &bound_j);
        add(&gap, 100.0 * (energy_j / bound_j - 1.0));
    }
    printf("%s %sx%s: gap to the bound over %u deadlines: mean %.3f %%, worst %.3f %%\n", args[0],
           args[1], args[2], gap.count, mean(&gap), gap.most);
    end(&planner);
    return good && mean(&gap) <= (a40 ? A40_GAP_MEAN : A100_GAP_MEAN) &&
                   gap.most <= (a40 ? A40_GAP_WORST : A100_GAP_WORST)
               ? 0
               : 1;
}

/* iter,quant_time,model_time_s,model_cost_eff_J,model_energy_J,cost_change_J,realised_time_s,
 * realised_energy_J; the last two only in some rows. */
static bool realised(const char *line, double *time_s, double *energy_j)
{
    for (int commas = 0; commas < 6 && line != NULL; commas++) {
        line = strchr(line, ',');
        if (line != NULL)
            line++;
    }
    return line != NULL && sscanf(line, "%lf,%lf", time_s, energy_j) == 2;
}

static int check_lowtime(char **args)
{
    struct planner planner = {0};
    struct tally advantage = {0};
    char path[1024];
    char line[256];
    double time_s;
    double theirs_j;
    bool good = true;
    int row = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/lowtime/gpt3_a100_%sx%s.csv", LULL_SHARED_DATA, args[0],
             args[1]);
    file = fopen(path, "r");
    if (file == NULL || !begin(&planner, false, (uint32_t)atoi(args[0]), (uint32_t)atoi(args[1]))) {
        fprintf(stderr, "skipped: no recorded plans %s\n", path);
        return SKIPPED;
    }
    while (good && fgets(line, sizeof(line), file) != NULL) {
        double ours_j = 0.0;
        double bound_j;

        if (!realised(line, &time_s, &theirs_j) || row++ % atoi(args[3]) != atoi(args[2]))
            continue;
        good = plan(&planner, llround(time_s * 1e9), &ours_j, &bound_j);
        add(&advantage, 100.0 * (theirs_j - ours_j) / theirs_j);
    }
    fclose(file);
    printf("%sx%s at lowtime's times: energy less by mean %.3f %%, least %.3f %%, most %.3f %% (%u "
           "plans)\n",
           args[0], args[1], mean(&advantage), advantage.least, advantage.most, advantage.count);
    end(&planner);
    return good && advantage.count > 0 && mean(&advantage) >= LOWTIME_MEAN &&
                   advantage.least >= LOWTIME_LEAST
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "bound") == 0)
        return check_bound(argv + 2);
    if (argc == 6 && strcmp(argv[1], "lowtime") == 0)
        return check_lowtime(argv + 2);
    fprintf(stderr, "usage: see the head of %s\n", __FILE__);
    return 2;
}
