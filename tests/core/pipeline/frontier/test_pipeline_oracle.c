/*
 * The frontier against two linear programming solvers, CLP and GLPK, on the same integers: every
 * operation mixes all its options, no hull, no flow, no graph algorithm.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <glpk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coin/Clp_C_Interface.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/schedule/schedule.h"
#include "../pipeline_case.h"
#include "../../property.h"

enum { CASES = 220, DEADLINES = 6 };

#define MARGIN_RATIO 1e-8

/*
 * Minimise objective * x with row_lower <= A x <= row_upper, x >= 0; A by columns. Columns: begin
 * of every operation in ms, then the shares of its options; rows: edges, ends, sums of shares.
 */
struct program {
    int columns;
    int rows;
    int *start;
    int *index;
    double *value;
    double *objective;
    double *row_lower;
    double *row_upper;
    double constant;
};

static double ms(int64_t time_ns)
{
    return (double)time_ns * 1e-6;
}

static const struct lull_pipeline_class *class_of(const struct pipeline_case *it, size_t op)
{
    return &it->profile.classes[it->graph.ops[op].class_index];
}

static void *array(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    assert_non_null(memory);
    return memory;
}

static void allocate(struct program *program, const struct pipeline_case *it)
{
    size_t columns = it->graph.op_count;
    const size_t rows = it->graph.edge_count + 2 * it->graph.op_count;
    size_t entries = 2 * it->graph.edge_count + it->graph.op_count;

    for (size_t op = 0; op < it->graph.op_count; op++) {
        const size_t points = class_of(it, op)->point_count;

        columns += points;
        entries += points * (2 + it->graph.first_out[op + 1] - it->graph.first_out[op]);
    }
    program->columns = (int)columns;
    program->rows = (int)rows;
    program->start = array(columns + 1, sizeof(int));
    program->index = array(entries, sizeof(int));
    program->value = array(entries, sizeof(double));
    program->objective = array(columns, sizeof(double));
    program->row_lower = array(rows, sizeof(double));
    program->row_upper = array(rows, sizeof(double));
    program->constant = 0.0;
}

static void release(struct program *program)
{
    free(program->start);
    free(program->index);
    free(program->value);
    free(program->objective);
    free(program->row_lower);
    free(program->row_upper);
}

static void put(struct program *program, int *entries, size_t row, double value)
{
    program->index[*entries] = (int)row;
    program->value[(*entries)++] = value;
}

static void put_begin(struct program *program, const struct pipeline_case *it, size_t op,
                      int *entries)
{
    const struct lull_pipeline_graph *graph = &it->graph;

    for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++)
        put(program, entries, graph->in_edges[i], 1.0);
    for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++)
        put(program, entries, graph->out_edges[i], -1.0);
    put(program, entries, graph->edge_count + op, 1.0);
}

static void put_share(struct program *program, const struct pipeline_case *it, size_t op,
                      const struct lull_pipeline_point *point, int *entries)
{
    const struct lull_pipeline_graph *graph = &it->graph;

    for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++)
        put(program, entries, graph->out_edges[i], -ms(point->time_ns));
    put(program, entries, graph->edge_count + op, ms(point->time_ns));
    put(program, entries, graph->edge_count + graph->op_count + op, 1.0);
}

static void build(struct program *program, const struct pipeline_case *it, int64_t deadline_ns)
{
    const struct lull_pipeline_graph *graph = &it->graph;
    int entries = 0;
    int column = 0;

    allocate(program, it);
    for (size_t op = 0; op < graph->op_count; op++) {
        put_begin(program, it, op, &entries);
        program->start[++column] = entries;
    }
    for (size_t op = 0; op < graph->op_count; op++) {
        const struct lull_pipeline_class *operations = class_of(it, op);

        for (size_t i = 0; i < operations->point_count; i++) {
            const struct lull_pipeline_point *point = &operations->points[i];

            put_share(program, it, op, point, &entries);
            program->objective[column] =
                ((double)point->energy_nj -
                 it->blocking_w[graph->ops[op].device] * (double)point->time_ns) *
                1e-9;
            program->start[++column] = entries;
        }
        program->row_lower[graph->edge_count + op] = -1e30;
        program->row_upper[graph->edge_count + op] = ms(deadline_ns);
        program->row_lower[graph->edge_count + graph->op_count + op] = 1.0;
        program->row_upper[graph->edge_count + graph->op_count + op] = 1.0;
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        program->row_lower[i] = ms(graph->edges[i].latency_ns);
        program->row_upper[i] = 1e30;
    }
    for (uint32_t device = 0; device < graph->device_count; device++)
        program->constant += it->blocking_w[device] * (double)deadline_ns * 1e-9;
}

static double solve_clp(const struct program *program)
{
    Clp_Simplex *model = Clp_newModel();
    double energy_j;

    Clp_setLogLevel(model, 0);
    Clp_setPrimalTolerance(model, 1e-10);
    Clp_setDualTolerance(model, 1e-10);
    Clp_loadProblem(model, program->columns, program->rows, program->start, program->index,
                    program->value, NULL, NULL, program->objective, program->row_lower,
                    program->row_upper);
    Clp_dual(model, 0);
    assert_int_equal(Clp_status(model), 0);
    energy_j = Clp_objectiveValue(model) + program->constant;
    Clp_deleteModel(model);
    return energy_j;
}

static void load_glpk(glp_prob *problem, const struct program *program)
{
    int *index = array((size_t)program->rows, sizeof(int));

    glp_add_rows(problem, program->rows);
    glp_add_cols(problem, program->columns);
    for (int row = 0; row < program->rows; row++) {
        const double lower = program->row_lower[row];
        const double upper = program->row_upper[row];
        const int type = upper >= 1e30    ? GLP_LO
                         : lower <= -1e30 ? GLP_UP
                         : lower < upper  ? GLP_DB
                                          : GLP_FX;

        glp_set_row_bnds(problem, row + 1, type, lower, upper);
    }
    for (int column = 0; column < program->columns; column++) {
        const int first = program->start[column];
        const int count = program->start[column + 1] - first;

        for (int i = 0; i < count; i++)
            index[i + 1] = program->index[first + i] + 1;
        /* The arrays begin at 1. */
        glp_set_mat_col(problem, column + 1, count, index, &program->value[first] - 1);
        glp_set_obj_coef(problem, column + 1, program->objective[column]);
        glp_set_col_bnds(problem, column + 1, GLP_LO, 0.0, 0.0);
    }
    free(index);
}

static double solve_glpk(const struct program *program)
{
    glp_prob *problem = glp_create_prob();
    glp_smcp settings;
    double energy_j;

    glp_term_out(GLP_OFF);
    glp_init_smcp(&settings);
    settings.msg_lev = GLP_MSG_OFF;
    settings.meth = GLP_DUALP;
    settings.tol_bnd = 1e-9;
    settings.tol_dj = 1e-10;
    load_glpk(problem, program);
    glp_scale_prob(problem, GLP_SF_AUTO);
    glp_adv_basis(problem, 0);
    assert_int_equal(glp_simplex(problem, &settings), 0);
    assert_int_equal(glp_get_status(problem), GLP_OPT);
    energy_j = glp_get_obj_val(problem) + program->constant;
    glp_delete_prob(problem);
    return energy_j;
}

static void check_deadline(const struct pipeline_case *it, struct lull_frontier *frontier,
                           int64_t deadline_ns, bool with_glpk, uint64_t seed)
{
    struct program program;
    struct lull_frontier_point here;

    holds(lull_frontier_seek(frontier, deadline_ns) == 0, seed);
    here = lull_frontier_here(frontier);
    build(&program, it, here.time_ns);
    const double clp_j = solve_clp(&program);
    const double glpk_j = with_glpk ? solve_glpk(&program) : clp_j;

    if (fabs(here.energy_j - clp_j) > MARGIN_RATIO * fabs(clp_j) ||
        fabs(here.energy_j - glpk_j) > MARGIN_RATIO * fabs(glpk_j))
        fail_msg("case %" PRIu64 ", %" PRId64 " ns: %.12g J, CLP %.12g, GLPK %.12g", seed,
                 here.time_ns, here.energy_j, clp_j, glpk_j);
    release(&program);
}

/* The slow end, the fast end, and deadlines between them that split the time evenly. */
static void check_deadlines(const struct pipeline_case *it, bool with_glpk, uint64_t seed)
{
    struct lull_frontier *frontier = lull_frontier_create(&it->problem, NULL);
    int64_t slowest_ns;
    int64_t fastest_ns;

    assert_non_null(frontier);
    slowest_ns = lull_frontier_here(frontier).time_ns;
    lull_frontier_seek(frontier, 0);
    fastest_ns = lull_frontier_here(frontier).time_ns;
    for (int i = 0; i < DEADLINES; i++)
        check_deadline(it, frontier, slowest_ns - (slowest_ns - fastest_ns) * i / (DEADLINES - 1),
                       with_glpk, seed);
    lull_frontier_destroy(frontier);
}

static void test_random_graphs(void **state)
{
    static const struct pipeline_case_random size = {.ops = 30, .points = 12, .devices = 5};

    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct pipeline_case it;
        struct lull_random random;

        lull_random_init(&random, seed);
        pipeline_case_draw(&it, &random, &size);
        check_deadlines(&it, true, seed);
        pipeline_case_fini(&it);
    }
}

/* ---- data parallel copies of different GPUs ---- */

enum { STAGES = 3, MOST_COPIES = 3, COPY_CASES = 40 };

static void draw_profile(struct lull_random *random, struct lull_pipeline_profile *profile)
{
    const double slower = 1.0 + 0.4 * lull_random_uniform(random);

    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (int kind = 0; kind < 2; kind++)
            for (uint32_t clock = 0; clock < 4; clock++) {
                const double time_ms = (kind + 1) * slower * (40.0 + 6.0 * clock) *
                                       (1.0 + 0.1 * lull_random_uniform(random));
                const double watts =
                    (400.0 - 50.0 * clock) * (1.0 + 0.1 * lull_random_uniform(random));
                const struct lull_pipeline_point point = {
                    (int64_t)(time_ms * 1e6), (int64_t)(time_ms * watts * 1e6), 1400 - 100 * clock};

                assert_int_equal(lull_pipeline_profile_add(profile, 0, stage,
                                                           kind == 0 ? LULL_PIPELINE_FORWARD
                                                                     : LULL_PIPELINE_BACKWARD,
                                                           0, &point, NULL),
                                 0);
            }
}

/* 1F1B in copies, some of them measured by themselves; their all-reduce ends the iteration. */
static void build_copies(struct pipeline_case *it, struct lull_random *random)
{
    static const int64_t sync_ns = 25000000;
    const uint32_t copies = 2 + (uint32_t)(lull_random_uniform(random) * (MOST_COPIES - 1));
    struct lull_pipeline_profile profiles[MOST_COPIES];
    const struct lull_pipeline_profile *measured[MOST_COPIES] = {NULL};
    struct lull_pipeline_schedule schedule;
    struct lull_pipeline_shape shape = {
        .devices = STAGES,
        .microbatches = 2 + (uint32_t)(3.0 * lull_random_uniform(random)),
        .replicas = {.count = copies, .sync_ns = &sync_ns, .sync_count = 1, .measured = measured}};

    for (uint32_t i = 0; i < copies; i++) {
        draw_profile(random, &profiles[i]);
        if (i > 0 && lull_random_uniform(random) < 0.8)
            measured[i] = &profiles[i];
    }
    assert_int_equal(lull_pipeline_schedule_parse("1f1b", &schedule, NULL), 0);
    assert_int_equal(lull_pipeline_schedule_build(&schedule, &shape, &profiles[0], &it->profile,
                                                  &it->graph, NULL),
                     0);
    it->blocking_w = array(it->graph.device_count, sizeof(double));
    for (uint32_t i = 0; i < it->graph.device_count; i++)
        it->blocking_w[i] = 60.0 + 30.0 * lull_random_uniform(random);
    it->problem = (struct lull_pipeline_problem){&it->profile, &it->graph, it->blocking_w};
    for (uint32_t i = 0; i < copies; i++)
        lull_pipeline_profile_fini(&profiles[i]);
}

/* Every operation of a copy that was measured has what was measured of that copy. */
static void test_copies_of_different_gpus(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < COPY_CASES; seed++) {
        struct pipeline_case it;
        struct lull_random random;

        lull_random_init(&random, seed);
        build_copies(&it, &random);
        for (size_t op = 0; op < it.graph.op_count; op++) {
            const struct lull_pipeline_class *class = class_of(&it, op);

            holds(class->copy == 0 || class->copy == it.graph.ops[op].device / STAGES, seed);
        }
        check_deadlines(&it, true, seed);
        pipeline_case_fini(&it);
    }
}

static void check_1f1b(uint32_t stages, uint32_t microbatches, bool with_glpk)
{
    static const char path[] = LULL_SHARED_DATA "/profiles/gpt3-175b_a100_sxm_bf16.csv";
    struct pipeline_case it;

    if (!pipeline_case_1f1b(&it, path, stages, microbatches, PIPELINE_CASE_A100_W)) {
        fprintf(stderr, "skipped: no measured profile %s\n", path);
        skip();
    }
    check_deadlines(&it, with_glpk, stages);
    pipeline_case_fini(&it);
}

static void test_1f1b_of_4_stages(void **state)
{
    (void)state;
    check_1f1b(4, 8, true);
}

static void test_1f1b_of_8_stages(void **state)
{
    (void)state;
    check_1f1b(8, 16, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_copies_of_different_gpus),
        cmocka_unit_test(test_1f1b_of_4_stages),
        cmocka_unit_test(test_1f1b_of_8_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
