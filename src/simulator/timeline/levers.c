/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/timeline/levers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct levers_work {
    const struct lull_timeline_question *question;
    struct lull_timeline_parts parts;
    struct lull_timeline_answer *answer;
    struct lull_memory memory;
    int64_t *begin_ns; /* of each operation, as played */
    int64_t *end_ns;
    int64_t *length_ns;
    int64_t *step_ns;
    int64_t *until_ns; /* of each rank: what it has computed so far in a step */
    uint32_t *point;   /* of each rank */
    double highest_j;
};

/* A play of the job: when each operation ran, and between which times each step did. */
struct job_play {
    const int64_t *begin_ns;
    const int64_t *end_ns;
    const int64_t *first_ns; /* of each step; null: 0 */
    const int64_t *last_ns;  /* of each step */
};

/* The energy of the ranks in a play, and what lowering in gaps would save. */
struct play_energy {
    double energy_j;
    double saved_j;
    double compute_ns;
    double all_ns;
};

static void levers_add(struct levers_work *work, enum lull_timeline_lever_kind kind,
                       double latency_ms, double tolerance_ratio, double saving_ratio,
                       double slowdown_ratio)
{
    work->answer->levers[work->answer->lever_count++] = (struct lull_timeline_lever){
        kind, latency_ms, tolerance_ratio, saving_ratio, slowdown_ratio};
}

/* ---- gaps ---- */

static double low_j(const struct levers_work *work, uint32_t rank, int64_t gap_ns,
                    double latency_ms)
{
    const struct lull_timeline_power *const power = &work->question->power;
    const double low_ns = (double)gap_ns - latency_ms * 1e6;
    const double saved_w = power->points[work->point[rank]].wait_w - power->low_w;

    return low_ns > 0.0 && saved_w > 0.0 ? low_ns * saved_w * 1e-9 : 0.0;
}

/* Ends a step: the last gap of each rank, and the time in which it did not compute. */
static void close_step(const struct levers_work *work, const struct job_play *play, size_t step,
                       double latency_ms, struct play_energy *sum)
{
    const struct lull_operation_timeline *const timeline = work->question->job->timeline;

    for (uint32_t r = 0; r < timeline->rank_count; r++) {
        const int64_t first_ns = play->first_ns != NULL ? play->first_ns[step] : 0;

        sum->saved_j += low_j(work, r, play->last_ns[step] - work->until_ns[r], latency_ms);
        sum->energy_j += (double)(play->last_ns[step] - first_ns) * 1e-9 *
                         work->question->power.points[work->point[r]].wait_w;
        sum->all_ns += (double)(play->last_ns[step] - first_ns);
    }
}

static void open_step(const struct levers_work *work, const struct job_play *play, size_t step)
{
    for (size_t r = 0; r < work->question->job->timeline->rank_count; r++)
        work->until_ns[r] = play->first_ns != NULL ? play->first_ns[step] : 0;
}

/* A chosen operation draws the power of its rank's clock, another one that of the highest clock. */
static void add_computing(const struct levers_work *work, const struct job_play *play, uint32_t op,
                          double latency_ms, struct play_energy *sum)
{
    const struct lull_timeline_op *const at = &work->question->job->timeline->ops[op];
    const struct lull_timeline_point *const points = work->question->power.points;
    const uint32_t own = work->point[at->rank];
    const uint32_t point = lull_timeline_is_chosen(work->question->job, op) ? own : 0;
    const double length_ns = (double)(play->end_ns[op] - play->begin_ns[op]);

    sum->saved_j +=
        low_j(work, at->rank, play->begin_ns[op] - work->until_ns[at->rank], latency_ms);
    sum->compute_ns += length_ns;
    sum->energy_j += length_ns * 1e-9 * (points[point].compute_w - points[own].wait_w);
    if (play->end_ns[op] > work->until_ns[at->rank])
        work->until_ns[at->rank] = play->end_ns[op];
}

/* Operations are in the order in which they were recorded, which is each rank's own order too. */
static struct play_energy levers_measure(const struct levers_work *work,
                                         const struct job_play *play, double latency_ms)
{
    const struct lull_operation_timeline *const timeline = work->question->job->timeline;
    struct play_energy sum = {0};
    uint32_t i = 0;

    for (size_t s = 0; s < timeline->step_count; s++) {
        open_step(work, play, s);
        for (; i < timeline->op_count && timeline->ops[i].step == s; i++)
            if (lull_timeline_computes(&timeline->ops[i]))
                add_computing(work, play, i, latency_ms, &sum);
        close_step(work, play, s, latency_ms, &sum);
    }
    return sum;
}

static double replay_ratio(const struct levers_work *work, const struct job_play *recorded)
{
    double recorded_ns = 0.0;
    double replayed_ns = 0.0;

    for (size_t s = 0; s < work->question->job->timeline->step_count; s++) {
        recorded_ns += (double)(recorded->last_ns[s] - recorded->first_ns[s]);
        replayed_ns += (double)work->parts.step_ns[s];
    }
    return recorded_ns > 0.0 ? replayed_ns / recorded_ns : 1.0;
}

/* Gaps as they were recorded. */
static void add_gaps(struct levers_work *work)
{
    const struct lull_operation_timeline *const timeline = work->question->job->timeline;
    const double latencies_ms[LULL_TIMELINE_LATENCIES] = {5.0, 15.0, 25.0, 50.0,
                                                          work->question->driver_ms};
    int64_t *const first_ns = work->length_ns; /* not needed now */
    const struct job_play play = {work->begin_ns, work->end_ns, first_ns, work->step_ns};

    memset(work->step_ns, 0, timeline->step_count * sizeof(*work->step_ns));
    memset(work->point, 0, timeline->rank_count * sizeof(*work->point));
    for (uint32_t i = 0; i < timeline->op_count; i++) {
        const struct lull_timeline_op *const op = &timeline->ops[i];

        work->begin_ns[i] = op->begin_ns;
        work->end_ns[i] = op->begin_ns + op->duration_ns;
        if (i == 0 || op->step != op[-1].step)
            first_ns[op->step] = op->begin_ns;
        if (work->end_ns[i] > work->step_ns[op->step])
            work->step_ns[op->step] = work->end_ns[i];
    }
    work->answer->replay_ratio = replay_ratio(work, &play);
    for (int l = 0; l < LULL_TIMELINE_LATENCIES; l++) {
        const struct play_energy sum = levers_measure(work, &play, latencies_ms[l]);

        work->answer->compute_ratio = sum.all_ns > 0.0 ? sum.compute_ns / sum.all_ns : 0.0;
        levers_add(work, LULL_LEVER_GAPS, latencies_ms[l], 0.0, sum.saved_j / sum.energy_j, 0.0);
    }
}

/* ---- steady points ---- */

/* Plays the job with the ranks' clocks; the energy is with gaps at the driver's latency beside. */
static struct play_energy play_points(const struct levers_work *work, double *slowdown_out)
{
    const struct lull_timeline_job *const job = work->question->job;
    const struct lull_operation_timeline *const timeline = job->timeline;
    const struct job_play play = {work->begin_ns, work->end_ns, NULL, work->step_ns};
    double recorded_ns = 0.0;
    double time_ns = 0.0;

    for (uint32_t i = 0; i < timeline->op_count; i++) {
        const uint32_t point =
            lull_timeline_is_chosen(job, i) ? work->point[timeline->ops[i].rank] : 0;

        work->length_ns[i] =
            (int64_t)((double)job->length_ns[i] / work->question->power.points[point].speed_ratio);
    }
    lull_timeline_replay(job, work->length_ns, work->end_ns, work->step_ns);
    for (uint32_t i = 0; i < timeline->op_count; i++)
        work->begin_ns[i] = work->end_ns[i] - work->length_ns[i];
    for (size_t s = 0; s < timeline->step_count; s++) {
        recorded_ns += (double)work->parts.step_ns[s];
        time_ns += (double)work->step_ns[s];
    }
    *slowdown_out = recorded_ns > 0.0 ? time_ns / recorded_ns - 1.0 : 0.0;
    return levers_measure(work, &play, work->question->driver_ms);
}

static struct play_energy play_uniform(const struct levers_work *work, uint32_t point,
                                       double *slowdown_out)
{
    for (size_t r = 0; r < work->question->job->timeline->rank_count; r++)
        work->point[r] = point;
    return play_points(work, slowdown_out);
}

/* Finds the point of all ranks that saves most within the tolerance. */
static uint32_t choose_steady(struct levers_work *work, double tolerance_ratio, double *saving_out,
                              double *slowdown_out)
{
    uint32_t best = 0;

    *saving_out = *slowdown_out = 0.0;
    for (uint32_t k = 1; k < work->question->power.point_count; k++) {
        double slowdown;
        const struct play_energy sum = play_uniform(work, k, &slowdown);
        const double saving = 1.0 - sum.energy_j / work->highest_j;

        if (slowdown > tolerance_ratio)
            break;
        if (saving > *saving_out) {
            *saving_out = saving;
            *slowdown_out = slowdown;
            best = k;
        }
    }
    return best;
}

/* A clock for each rank, found from the highest and from the best one of all; the better counts. */
static int add_ranks(struct levers_work *work, double tolerance_ratio, uint32_t steady)
{
    const uint32_t begins[] = {0, steady};
    double best[4] = {0.0, 0.0, 0.0, 0.0}; /* saving, with gaps, slowdown, the same */

    for (int b = 0; b < 2; b++) {
        struct play_energy sum;
        double slowdown;
        double saving;
        const int rc = lull_timeline_choose_ranks(&work->parts, &work->question->power,
                                                  tolerance_ratio, begins[b], work->point);

        if (rc < 0)
            return rc;
        sum = play_points(work, &slowdown);
        saving = 1.0 - sum.energy_j / work->highest_j;
        if (saving > best[0]) {
            best[0] = saving;
            best[2] = slowdown;
        }
        if (saving + sum.saved_j / work->highest_j > best[1]) {
            best[1] = saving + sum.saved_j / work->highest_j;
            best[3] = slowdown;
        }
        if (steady == 0)
            break;
    }
    levers_add(work, LULL_LEVER_RANK, 0.0, tolerance_ratio, best[0], best[2]);
    levers_add(work, LULL_LEVER_RANK_GAPS, work->question->driver_ms, tolerance_ratio, best[1],
               best[3]);
    return 0;
}

static int levers_add_steady(struct levers_work *work, double tolerance_ratio)
{
    double saving;
    double slowdown;
    const uint32_t steady = choose_steady(work, tolerance_ratio, &saving, &slowdown);

    levers_add(work, LULL_LEVER_STEADY, 0.0, tolerance_ratio, saving, slowdown);
    return add_ranks(work, tolerance_ratio, steady);
}

/* ---- clocks of operations ---- */

static double gap_of(const struct lull_timeline_plan_sum *sum)
{
    return sum->bound_j > 0.0 ? fmax(sum->energy_j / sum->bound_j - 1.0, 0.0) : 0.0;
}

static int levers_add_operations(struct levers_work *work, struct lull_error *err)
{
    const double tolerance_ratio = work->question->tolerance_ratio;
    struct lull_timeline_plan_sum exact;
    struct lull_timeline_plan_sum slower;
    const int rc = lull_timeline_plan(&work->parts, &work->question->power, tolerance_ratio, &exact,
                                      &slower, err);

    if (rc == -EINVAL) /* more than the planner's 100 s: the answer lacks this lever */
        return 0;
    if (rc < 0)
        return rc;
    work->answer->frontier_gap_ratio = fmax(gap_of(&exact), gap_of(&slower));
    levers_add(work, LULL_LEVER_OPERATION, 0.0, 0.0, 1.0 - exact.energy_j / work->highest_j, 0.0);
    if (tolerance_ratio <= 0.0)
        return 0;
    /* Beyond the cheapest time of a step, more time costs more. */
    if (slower.energy_j > exact.energy_j)
        slower = exact;
    levers_add(work, LULL_LEVER_OPERATION, 0.0, tolerance_ratio,
               1.0 - slower.energy_j / work->highest_j,
               fmax(slower.time_ns / exact.time_ns - 1.0, 0.0));
    return 0;
}

/* ---- the whole ---- */

static bool levers_allocate(struct levers_work *work)
{
    const struct lull_operation_timeline *const timeline = work->question->job->timeline;
    struct lull_memory *const memory = &work->memory;
    /* It also holds the starts of steps. */
    const size_t ops = timeline->op_count + timeline->step_count;

    work->begin_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    work->end_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    work->length_ns = lull_memory_take(memory, ops, sizeof(int64_t));
    work->step_ns = lull_memory_take(memory, timeline->step_count, sizeof(int64_t));
    work->until_ns = lull_memory_take(memory, timeline->rank_count, sizeof(int64_t));
    work->point = lull_memory_take(memory, timeline->rank_count, sizeof(uint32_t));
    return !memory->has_failed;
}

static int levers_evaluate_all(struct levers_work *work, struct lull_error *err)
{
    const double tolerance_ratio = work->question->tolerance_ratio;
    double slowdown;
    int rc;

    add_gaps(work);
    if (work->question->only_gaps)
        return 0;
    work->highest_j = play_uniform(work, 0, &slowdown).energy_j;
    rc = levers_add_steady(work, 0.0);
    if (rc == 0 && tolerance_ratio > 0.0)
        rc = levers_add_steady(work, tolerance_ratio);
    if (rc < 0)
        return lull_error_set(err, rc, "not enough memory for the ranks' clocks");
    return levers_add_operations(work, err);
}

int lull_timeline_ask(const struct lull_timeline_question *question,
                      struct lull_timeline_answer *answer_out, struct lull_error *err)
{
    struct lull_timeline_answer answer = {.driver_ms = question->driver_ms,
                                          .frontier_gap_ratio = NAN};
    struct levers_work work = {.question = question, .answer = &answer};
    int rc = lull_timeline_parts_init(&work.parts, question->job, err);

    if (rc < 0)
        return rc;
    if (levers_allocate(&work))
        rc = levers_evaluate_all(&work, err);
    else
        rc = lull_error_set(err, -ENOMEM, "not enough memory for the levers");
    lull_memory_free(&work.memory);
    lull_timeline_parts_fini(&work.parts);
    if (rc == 0)
        *answer_out = answer;
    return rc;
}
