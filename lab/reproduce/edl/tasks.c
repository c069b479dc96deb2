/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/edl/tasks.h"

#include "core/stats/random.h"
#include "lab/reproduce/job_set.h"
#include "trace/columns.h"

static const double most = 1e9;

enum dvfs_task_field {
    ARRIVAL,
    SCALED,
    CONSTANT,
    SHARE,
    CONSTANT_W,
    MEMORY_W,
    CORE_W,
    ID,
    DEADLINE,
    LOAD
};

enum { NUMBERS = ID };

static const struct lull_column known[] = {
    {"job_id", ID, 0},
    {"arrival", ARRIVAL, 0},
    {"deadline", DEADLINE, 0},
    {"utilization", LOAD, 0},
    {"d", SCALED, 0},
    {"D", SCALED, 0},
    {"t0", CONSTANT, 0},
    {"delta", SHARE, 0},
    {"p0_w", CONSTANT_W, 0},
    {"power_basic", CONSTANT_W, 0},
    {"gamma_w", MEMORY_W, 0},
    {"gamma", MEMORY_W, 0},
    {"cg_w", CORE_W, 0},
    {"cg", CORE_W, 0},
    {NULL, 0, 0},
};

/* ---- one task ----------------------------------------------------------------------------- */

static int edl_task_check_names(const struct lull_columns *record, struct lull_error *err)
{
    int rc = lull_columns_has(record, LOAD)
                 ? 0
                 : lull_columns_need(record, UINT64_C(1) << DEADLINE, err);

    for (uint32_t field = 0; rc == 0 && field <= ID; field++)
        rc = lull_columns_need(record, UINT64_C(1) << field, err);
    return rc;
}

static int edl_task_read_numbers(const struct lull_columns *record, struct lull_dvfs_task *task,
                                 struct lull_error *err)
{
    double *const places[NUMBERS] = {
        [ARRIVAL] = &task->arrival_s,     [SCALED] = &task->scaled_s,
        [CONSTANT] = &task->constant_s,   [SHARE] = &task->core_share,
        [CONSTANT_W] = &task->constant_w, [MEMORY_W] = &task->memory_w,
        [CORE_W] = &task->core_w,
    };
    int64_t id = 0;
    int rc = lull_columns_integer(record, ID, 0, INT64_MAX, "not a whole number", &id, err);

    for (uint32_t field = 0; rc == 0 && field < NUMBERS; field++)
        if (field == SHARE)
            rc = lull_columns_real(record, field, 0.0, 1.0, "not from 0 to 1", places[field], err);
        else
            rc = lull_columns_real(record, field, 0.0, most, "not from 0 to 1e9", places[field],
                                   err);
    task->id = (uint64_t)id;
    return rc;
}

static int edl_task_read_deadline(const struct lull_columns *record, struct lull_dvfs_task *task,
                                  struct lull_error *err)
{
    double load = 1.0;
    int rc;

    if (lull_columns_has(record, DEADLINE))
        return lull_columns_real(record, DEADLINE, 0.0, most, "not from 0 to 1e9",
                                 &task->deadline_s, err);
    rc = lull_columns_real(record, LOAD, 1e-6, 1.0, "not above 0 and at most 1", &load, err);
    task->deadline_s = task->arrival_s + (task->constant_s + task->scaled_s) / load;
    return rc;
}

static int edl_task_check(const struct lull_columns *record, const struct lull_dvfs_task *task,
                          struct lull_error *err)
{
    if (!(task->scaled_s + task->constant_s > 0.0))
        return lull_columns_refuse(record, SCALED,
                                   "d and t0 are both 0, so that the task takes no time", err);
    if (!(task->constant_w + task->memory_w + task->core_w > 0.0))
        return lull_columns_refuse(
            record, CONSTANT_W, "p0_w, gamma_w and cg_w are all 0, so that the task draws no power",
            err);
    if (!(task->deadline_s > task->arrival_s))
        return lull_columns_refuse(record, lull_columns_has(record, DEADLINE) ? DEADLINE : LOAD,
                                   "the deadline is not after the arrival", err);
    return 0;
}

static int read_task(const struct lull_columns *record, void *task_out, struct lull_error *err)
{
    struct lull_dvfs_task *const task = task_out;
    int rc;

    *task = (struct lull_dvfs_task){0};
    rc = edl_task_read_numbers(record, task, err);
    if (rc < 0)
        return rc;
    rc = edl_task_read_deadline(record, task, err);
    if (rc < 0)
        return rc;
    return edl_task_check(record, task, err);
}

/* ---- many --------------------------------------------------------------------------------- */

static const struct lull_job_kind kind = {
    .known = known,
    .many = "tasks",
    .size = sizeof(struct lull_dvfs_task),
    .check = edl_task_check_names,
    .read = read_task,
};

int lull_dvfs_tasks_read_text(const char *name, char *text, struct lull_dvfs_task *task_out,
                              struct lull_error *err)
{
    return lull_job_set_read_text(&kind, name, text, task_out, err);
}

int lull_dvfs_tasks_read(const char *path, struct lull_dvfs_task **tasks_out, size_t *count_out,
                         struct lull_error *err)
{
    void *all;
    const int rc = lull_job_set_read(&kind, path, &all, count_out, err);

    if (rc == 0)
        *tasks_out = all;
    return rc;
}

/* ---- random tasks ---------------------------------------------------------------------------- */

static double edl_task_draw_between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

static double whole_between(struct lull_random *random, uint64_t low, uint64_t high)
{
    return (double)(low + lull_random_below(random, high - low + 1));
}

size_t lull_edl_tasks_count(double utilisation, bool is_online)
{
    return (size_t)(utilisation * LULL_EDL_TASKS_GPUS) + (is_online ? LULL_EDL_TASKS_AT_ONCE : 0);
}

/* Draws all of the task but its times of arrival and deadline. */
static void draw_model(struct lull_random *random, struct lull_dvfs_task *task)
{
    const double scale = whole_between(random, 10, 50);
    double power_w;

    task->scaled_s = edl_task_draw_between(random, 1.66, 7.61) * scale;
    task->constant_s = edl_task_draw_between(random, 0.1, 0.95) * scale;
    task->core_share = edl_task_draw_between(random, 0.07, 0.91);
    power_w = whole_between(random, 175, 206);
    task->constant_w = power_w * edl_task_draw_between(random, 0.2, 0.41);
    task->memory_w = power_w * edl_task_draw_between(random, 0.1, 0.2);
    task->core_w = power_w - task->constant_w - task->memory_w;
}

void lull_edl_tasks_draw(double utilisation, bool is_online, uint64_t seed,
                         struct lull_dvfs_task *tasks_out)
{
    const size_t count = lull_edl_tasks_count(utilisation, is_online);
    struct lull_random random;

    lull_random_init(&random, seed);
    for (size_t i = 0; i < count; i++) {
        struct lull_dvfs_task *task = &tasks_out[i];
        double share;

        *task = (struct lull_dvfs_task){.id = i};
        draw_model(&random, task);
        share = is_online ? edl_task_draw_between(&random, 0.15, 0.85)
                          : edl_task_draw_between(&random, 0.25, 0.75);
        if (is_online && i >= LULL_EDL_TASKS_AT_ONCE)
            task->arrival_s = whole_between(&random, 1, LULL_EDL_TASKS_SLOTS - 1);
        task->deadline_s = task->arrival_s + (task->scaled_s + task->constant_s) / share;
    }
}
