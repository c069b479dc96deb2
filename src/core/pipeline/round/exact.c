/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/round/exact.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/prove/prove.h"
#include "core/stats/random.h"

/* Fewer are settled soon and find little, more are cut off. */
enum { WINDOW_OPS = 45, BRANCHINGS = 100, SEED = 7 };

/* A stage away counts at most as so much of the deadline. */
static const double stage_share = 0.1;

/* What is asked for: so much less, of the energy. */
static const double saving_ratio = 1e-9;

struct near {
    double distance_ns;
    uint32_t op;
};

struct exact {
    const struct lull_pipeline_problem *asked;
    struct lull_pipeline_problem problem; /* over the two below: an own class for each operation */
    struct lull_pipeline_profile profile;
    struct lull_pipeline_graph graph; /* the asked one's, but for the operations */
    int64_t deadline_ns;
    uint32_t *option; /* of the caller */
    double energy_j;
    uint32_t *found;
    int64_t *duration_ns;
    int64_t *begin_ns;
    struct near *near;
    struct lull_random random;
};

static int init(struct exact *exact)
{
    const size_t count = exact->asked->graph->op_count;

    exact->graph = *exact->asked->graph;
    exact->graph.ops = calloc(count, sizeof(*exact->graph.ops));
    exact->profile.classes = calloc(count, sizeof(*exact->profile.classes));
    exact->profile.class_count = count;
    exact->found = calloc(count, sizeof(*exact->found));
    exact->duration_ns = calloc(count, sizeof(*exact->duration_ns));
    exact->begin_ns = calloc(count, sizeof(*exact->begin_ns));
    exact->near = calloc(count, sizeof(*exact->near));
    if (exact->graph.ops == NULL || exact->profile.classes == NULL || exact->found == NULL ||
        exact->duration_ns == NULL || exact->begin_ns == NULL || exact->near == NULL)
        return -ENOMEM;
    for (uint32_t op = 0; op < count; op++) {
        exact->graph.ops[op] = exact->asked->graph->ops[op];
        exact->graph.ops[op].class_index = op;
    }
    exact->problem =
        (struct lull_pipeline_problem){&exact->profile, &exact->graph, exact->asked->blocking_w};
    lull_random_init(&exact->random, SEED);
    return 0;
}

static void fini(struct exact *exact)
{
    free(exact->graph.ops);
    free(exact->profile.classes);
    free(exact->found);
    free(exact->duration_ns);
    free(exact->begin_ns);
    free(exact->near);
}

/* ---- a window ----------------------------------------------------------------------------- */

static int by_distance(const void *left, const void *right)
{
    const struct near *a = left;
    const struct near *b = right;

    if (a->distance_ns < b->distance_ns || a->distance_ns > b->distance_ns)
        return a->distance_ns < b->distance_ns ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

static double middle_ns(const struct exact *exact, uint32_t op)
{
    return (double)exact->begin_ns[op] + 0.5 * (double)exact->duration_ns[op];
}

/* Orders all operations by how near they are to one of them, as the plan runs them. */
static void draw(struct exact *exact)
{
    const struct lull_pipeline_graph *graph = &exact->graph;
    const uint32_t centre = (uint32_t)lull_random_below(&exact->random, graph->op_count);
    const double stage_ns = stage_share * (double)exact->deadline_ns *
                            lull_random_uniform(&exact->random) *
                            lull_random_uniform(&exact->random);

    for (uint32_t op = 0; op < graph->op_count; op++)
        exact->duration_ns[op] =
            lull_pipeline_class_of(exact->asked, op)->options[exact->option[op]].time_ns;
    lull_pipeline_earliest(graph, exact->duration_ns, exact->begin_ns);
    for (uint32_t op = 0; op < graph->op_count; op++)
        exact->near[op] = (struct near){
            fabs(middle_ns(exact, op) - middle_ns(exact, centre)) +
                stage_ns * fabs((double)graph->ops[op].device - graph->ops[centre].device),
            op};
    qsort(exact->near, graph->op_count, sizeof(*exact->near), by_distance);
}

/* The nearest may choose, the others keep what they have. */
static void free_nearest(struct exact *exact)
{
    for (uint32_t i = 0; i < exact->graph.op_count; i++) {
        const uint32_t op = exact->near[i].op;
        struct lull_pipeline_class *const class = &exact->profile.classes[op];

        *class = *lull_pipeline_class_of(exact->asked, op);
        if (i < WINDOW_OPS)
            continue;
        class->options += exact->option[op];
        class->option_count = 1;
    }
}

/* 1 where the plan found is cheaper. */
static int take_found(struct exact *exact)
{
    double energy_j;

    for (uint32_t i = WINDOW_OPS; i < exact->graph.op_count; i++)
        exact->found[exact->near[i].op] = exact->option[exact->near[i].op];
    energy_j = lull_pipeline_plan_cost(exact->asked, exact->found, 0).energy_j;
    if (energy_j >= exact->energy_j)
        return 0;
    memcpy(exact->option, exact->found, exact->graph.op_count * sizeof(*exact->option));
    exact->energy_j = energy_j;
    return 1;
}

static int look(struct exact *exact)
{
    static const struct lull_proof_limits limits = {BRANCHINGS, 0};
    struct lull_proof_report report;
    struct lull_error err = {0};
    int result;

    draw(exact);
    free_nearest(exact);
    result = lull_pipeline_prove(&exact->problem, exact->deadline_ns,
                                 exact->energy_j * (1.0 - saving_ratio), &limits, NULL, NULL,
                                 exact->found, &report, &err);
    return result < 0 || report.outcome != LULL_PROOF_FOUND ? result : take_found(exact);
}

int64_t lull_pipeline_exact(const struct lull_pipeline_problem *problem, int64_t deadline_ns,
                            uint32_t windows, uint32_t *option_inout)
{
    struct exact exact = {.asked = problem, .deadline_ns = deadline_ns, .option = option_inout};
    int64_t cheaper = 0;
    int result = init(&exact);

    if (result == 0)
        exact.energy_j = lull_pipeline_plan_cost(problem, option_inout, 0).energy_j;
    for (uint32_t i = 0; i < windows && result >= 0; i++) {
        result = look(&exact);
        cheaper += result > 0;
    }
    fini(&exact);
    return result < 0 ? result : cheaper;
}
