/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/solver/time_indexed.h"

#include <errno.h>
#include <stdlib.h>

enum { MANY_ENTRIES = 500000, LONG_ENTRIES = 250000, LONG_COLUMN = 64 };

static double time_indexed_cost_at(const struct lull_slot_point *point, uint32_t start)
{
    return point->cost_j + point->delay_j * ((double)start - (double)point->first);
}

/* ---- omitted variables -------------------------------------------------------------------- */

/* Costs are linear in the start: what holds at both ends holds between them. */
static bool is_never_worse(const struct lull_slot_point *a, const struct lull_slot_point *b)
{
    return a->type == b->type && a->gpus <= b->gpus && a->slots <= b->slots &&
           a->power_w <= b->power_w && a->first <= b->first && a->last >= b->last &&
           time_indexed_cost_at(a, b->first) <= b->cost_j &&
           time_indexed_cost_at(a, b->last) <= time_indexed_cost_at(b, b->last);
}

static bool is_needed(const struct lull_slot_job *job, uint32_t point)
{
    for (uint32_t other = 0; other < job->point_count; other++) {
        if (other == point || !is_never_worse(&job->points[other], &job->points[point]))
            continue;
        /* Where two operating points are the same, the first one stays. */
        if (other < point || !is_never_worse(&job->points[point], &job->points[other]))
            return false;
    }
    return true;
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Adds the most that a job can take of a resource, a type of GPU or, behind them, power, from when
 * it can begin to take it until it must have ended. Adds nothing where an operating point ahead of
 * number `at` takes the resource too, so that each type is added once. */
static void add_most(const struct lull_slot_problem *problem, const struct lull_slot_job *job,
                     uint32_t resource, uint32_t at, int64_t *change)
{
    const bool is_power = resource == problem->type_count;
    uint32_t begin = UINT32_MAX, end = 0, most = 0;

    for (uint32_t m = 0; m < job->point_count; m++) {
        const struct lull_slot_point *point = &job->points[m];
        const uint32_t taken = is_power ? point->power_w : point->gpus;

        if (!is_power && point->type != resource)
            continue;
        if (m < at)
            return;
        begin = point->first < begin ? point->first : begin;
        end = point->last + point->slots > end ? point->last + point->slots : end;
        most = taken > most ? taken : most;
    }
    if (begin == UINT32_MAX)
        return;
    change[begin] += most;
    change[end] -= most;
}

static double room_of(const struct lull_slot_problem *problem, uint32_t resource)
{
    return resource < problem->type_count ? (double)problem->gpus[resource]
                                          : (double)problem->cap_w;
}

/* Gives rows to the slots that could be too full; changes: those of add_most(), by resource. */
static void number_rows(struct lull_time_indexed *program, const int64_t *changes)
{
    const struct lull_slot_problem *problem = program->problem;

    program->rows = (int)problem->job_count;
    for (uint32_t i = 0; i <= problem->type_count; i++) {
        const int64_t *change = changes + i * ((size_t)problem->slots + 1);
        int64_t most = 0;

        for (uint32_t t = 0; t < problem->slots; t++) {
            most += change[t];
            program->row_of[(size_t)i * problem->slots + t] =
                (double)most > room_of(problem, i) ? program->rows++ : -1;
        }
    }
}

/* Counts for each slot the rows of the slots before it, so that the rows of a window are a
 * difference of two such counts. */
static int count_rows(struct lull_time_indexed *program)
{
    const struct lull_slot_problem *problem = program->problem;
    const size_t row = (size_t)problem->slots + 1;

    program->rows_before = calloc((problem->type_count + 1) * row, sizeof(*program->rows_before));
    if (program->rows_before == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i <= problem->type_count; i++)
        for (uint32_t t = 0; t < problem->slots; t++)
            program->rows_before[i * row + t + 1] =
                program->rows_before[i * row + t] +
                (program->row_of[(size_t)i * problem->slots + t] >= 0);
    return 0;
}

static void limit_rows(struct lull_time_indexed *program)
{
    const struct lull_slot_problem *problem = program->problem;

    for (size_t i = 0; i < problem->job_count; i++) {
        program->row_low[i] = isinf(problem->jobs[i].reject_j) ? 1.0 : -HUGE_VAL;
        program->row_high[i] = 1.0;
    }
    for (uint32_t i = 0; i <= problem->type_count; i++)
        for (uint32_t t = 0; t < problem->slots; t++) {
            const int row = program->row_of[(size_t)i * problem->slots + t];

            if (row < 0)
                continue;
            program->row_low[row] = -HUGE_VAL;
            program->row_high[row] = room_of(problem, i);
        }
}

static int make_rows(struct lull_time_indexed *program)
{
    const struct lull_slot_problem *problem = program->problem;
    const size_t row = (size_t)problem->slots + 1;
    int64_t *changes = calloc((problem->type_count + 1) * row, sizeof(*changes));

    program->row_of =
        calloc(((size_t)problem->type_count + 1) * problem->slots, sizeof(*program->row_of));
    if (changes == NULL || program->row_of == NULL) {
        free(changes);
        return -ENOMEM;
    }
    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];

        for (uint32_t m = 0; m < job->point_count; m++)
            add_most(problem, job, job->points[m].type, m, changes + job->points[m].type * row);
        add_most(problem, job, problem->type_count, 0, changes + problem->type_count * row);
    }
    number_rows(program, changes);
    free(changes);
    program->row_low = calloc((size_t)program->rows + 1, sizeof(*program->row_low));
    program->row_high = calloc((size_t)program->rows + 1, sizeof(*program->row_high));
    if (program->row_low == NULL || program->row_high == NULL)
        return -ENOMEM;
    limit_rows(program);
    return count_rows(program);
}

/* ---- columns ------------------------------------------------------------------------------ */

/* How many rows a resource has in the slots that a column takes. */
static int rows_within(const struct lull_time_indexed *program, uint32_t resource,
                       const struct lull_slot_point *point, uint32_t start)
{
    const int *before = program->rows_before + resource * ((size_t)program->problem->slots + 1);

    return before[start + point->slots] - before[start];
}

/* How many rows a column has beside its job's. */
static int rows_of(const struct lull_time_indexed *program, const struct lull_slot_point *point,
                   uint32_t start)
{
    const uint32_t power = program->problem->type_count;

    return rows_within(program, point->type, point, start) +
           (point->power_w > 0 ? rows_within(program, power, point, start) : 0);
}

/* The most that the job can cost in an optimum: it can always be left out, or run where no row
 * limits it. */
static double most_cost(const struct lull_time_indexed *program, const struct lull_slot_job *job)
{
    double max_j = job->reject_j;

    for (uint32_t m = 0; m < job->point_count; m++) {
        const struct lull_slot_point *point = &job->points[m];

        for (uint32_t start = point->first; start <= point->last; start++)
            if (rows_of(program, point, start) == 0) {
                max_j = fmin(max_j, time_indexed_cost_at(point, start));
                break; /* later ones cost no less */
            }
    }
    return max_j;
}

static void time_indexed_fill(struct lull_time_indexed *program, int column, int64_t entry)
{
    const struct lull_slot_problem *problem = program->problem;
    const struct lull_time_indexed_column *it = &program->column[column];
    const struct lull_slot_job *job = &problem->jobs[it->job];
    const struct lull_slot_point *point = &job->points[it->point];
    const uint32_t resources[] = {point->type, problem->type_count};
    const double amounts[] = {point->gpus, point->power_w};

    program->begin[column] = (int)entry;
    program->cost[column] =
        (time_indexed_cost_at(point, it->start) - (isinf(job->reject_j) ? 0.0 : job->reject_j)) /
        program->scale_j;
    program->row[entry] = (int)it->job;
    program->value[entry++] = 1.0;
    for (int i = 0; i < 2; i++)
        for (uint32_t t = it->start; t < it->start + point->slots && amounts[i] > 0.0; t++) {
            const int row = program->row_of[(size_t)resources[i] * problem->slots + t];

            if (row < 0)
                continue;
            program->row[entry] = row;
            program->value[entry++] = amounts[i];
        }
}

struct time_indexed_walk {
    bool is_filling;
    int64_t columns;
    int64_t entries;
};

/* Goes through the columns of one operating point. *has_free: the job has a column that no row
 * limits, so that it needs no other of that kind. */
static void walk_point(struct lull_time_indexed *program, struct lull_time_indexed_column column,
                       double max_j, bool *has_free, struct time_indexed_walk *walk)
{
    const struct lull_slot_point *point = &program->problem->jobs[column.job].points[column.point];

    for (uint32_t start = point->first; start <= point->last; start++) {
        const int rows = rows_of(program, point, start);
        const double cost_j = time_indexed_cost_at(point, start);
        const bool is_free = rows == 0 && !*has_free && cost_j <= max_j;

        if (cost_j > max_j)
            break; /* later ones cost no less */
        if (cost_j == max_j && !is_free)
            continue;
        if (walk->is_filling) {
            column.start = start;
            program->column[walk->columns] = column;
            time_indexed_fill(program, (int)walk->columns, walk->entries);
        }
        walk->columns++;
        walk->entries += 1 + rows;
        *has_free |= rows == 0;
        if (rows == 0)
            break;
    }
}

/* Goes through the columns; fills them in if there are arrays for them. */
static void walk_columns(struct lull_time_indexed *program, struct time_indexed_walk *walk)
{
    const struct lull_slot_problem *problem = program->problem;

    for (uint32_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];
        const double max_j = most_cost(program, job);
        bool has_free =
            !isinf(max_j) && max_j == job->reject_j; /* then rejecting the job costs no more */

        for (uint32_t m = 0; m < job->point_count; m++)
            if (is_needed(job, m))
                walk_point(program, (struct lull_time_indexed_column){i, m, 0}, max_j, &has_free,
                           walk);
    }
}

/* Costs of about 1 suit the solver's tolerances: the mean of the jobs' dearest operating points
 * is 1. */
static void choose_scale(struct lull_time_indexed *program)
{
    const struct lull_slot_problem *problem = program->problem;
    double sum_j = 0.0;

    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];
        double max_j = isinf(job->reject_j) ? 0.0 : fabs(job->reject_j);

        for (uint32_t m = 0; m < job->point_count; m++)
            max_j = fmax(max_j, fabs(job->points[m].cost_j));
        sum_j += max_j;
        program->constant_j += isinf(job->reject_j) ? 0.0 : job->reject_j;
    }
    program->scale_j = sum_j > 0.0 ? sum_j / (double)problem->job_count : 1.0;
}

static int make_columns(struct lull_time_indexed *program, struct lull_error *err)
{
    struct time_indexed_walk walk = {0};
    size_t room;

    walk_columns(program, &walk);
    if (walk.columns > LULL_TIME_INDEXED_MAX_COLUMNS ||
        walk.entries > LULL_TIME_INDEXED_MAX_ENTRIES)
        return lull_error_set(err, -E2BIG,
                              "the program has %lld columns, over %d; take longer slots, or leave "
                              "--ilp out",
                              (long long)walk.columns, LULL_TIME_INDEXED_MAX_COLUMNS);
    room = (size_t)walk.columns + 1;
    program->columns = (int)walk.columns;
    program->column = calloc(room, sizeof(*program->column));
    program->begin = calloc(room, sizeof(*program->begin));
    program->cost = calloc(room, sizeof(*program->cost));
    program->row = calloc((size_t)walk.entries + 1, sizeof(*program->row));
    program->value = calloc((size_t)walk.entries + 1, sizeof(*program->value));
    if (program->column == NULL || program->begin == NULL || program->cost == NULL ||
        program->row == NULL || program->value == NULL)
        return -ENOMEM;
    walk = (struct time_indexed_walk){.is_filling = true};
    walk_columns(program, &walk);
    program->begin[program->columns] = (int)walk.entries;
    return 0;
}

bool lull_time_indexed_is_slow(const struct lull_time_indexed *program)
{
    const int entries = program->begin[program->columns];

    return entries > MANY_ENTRIES ||
           (entries > LONG_ENTRIES && entries / LONG_COLUMN > program->columns);
}

int lull_time_indexed_create(const struct lull_slot_problem *problem,
                             struct lull_time_indexed *program_out, struct lull_error *err)
{
    int result;

    *program_out = (struct lull_time_indexed){.problem = problem};
    choose_scale(program_out);
    result = make_rows(program_out);
    if (result == 0)
        result = make_columns(program_out, err);
    if (result == -ENOMEM)
        lull_error_set(err, result, "no memory for the program of %zu jobs", problem->job_count);
    if (result < 0)
        lull_time_indexed_fini(program_out);
    return result;
}

void lull_time_indexed_fini(struct lull_time_indexed *program)
{
    free(program->begin);
    free(program->row);
    free(program->value);
    free(program->cost);
    free(program->row_low);
    free(program->row_high);
    free(program->column);
    free(program->row_of);
    free(program->rows_before);
    *program = (struct lull_time_indexed){0};
}
