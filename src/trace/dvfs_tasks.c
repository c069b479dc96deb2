/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/dvfs_tasks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const double most = 1e9;

struct column {
    const char *name;
    size_t offset;
    double max;
};

#define AT(member) offsetof(struct lull_dvfs_task, member)

static const struct column columns[] = {
    {"arrival", AT(arrival_s), 1e9}, {"deadline", AT(deadline_s), 1e9},
    {"d", AT(scaled_s), 1e9},        {"t0", AT(constant_s), 1e9},
    {"delta", AT(core_share), 1.0},  {"p0_w", AT(constant_w), 1e9},
    {"gamma_w", AT(memory_w), 1e9},  {"cg_w", AT(core_w), 1e9},
};

enum { NUMBERS = sizeof(columns) / sizeof(columns[0]), ID = NUMBERS, IGNORED };

struct table {
    struct lull_lines *lines;
    int meaning[LULL_DVFS_TASKS_COLUMNS]; /* of a cell: of columns, ID or IGNORED */
    size_t width;
    struct lull_dvfs_task *tasks;
    size_t count;
    size_t room;
    struct lull_error *err;
};

static int refuse(const struct table *table, const char *column, const char *why)
{
    return lull_error_set(table->err, LULL_E_FORMAT, "%s: line %zu: %s%s%s",
                          lull_lines_name(table->lines), lull_lines_number(table->lines), column,
                          column[0] != '\0' ? ": " : "", why);
}

/* ---- header ------------------------------------------------------------------------------- */

static const char *name_of(int meaning)
{
    return meaning == ID ? "job_id" : columns[meaning].name;
}

static int find_meaning(const char *name)
{
    for (int i = 0; i <= ID; i++)
        if (strcmp(name_of(i), name) == 0)
            return i;
    return IGNORED;
}

static int read_header(struct table *table)
{
    bool is_there[IGNORED + 1] = {false};
    char *rest = NULL;
    const int rc = lull_lines_next(table->lines, &rest, table->err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return lull_error_set(table->err, LULL_E_FORMAT, "%s: empty; the first line names columns",
                              lull_lines_name(table->lines));
    while (rest != NULL) {
        const char *const name = lull_lines_cell(&rest);
        const int meaning = find_meaning(name);

        if (table->width == LULL_DVFS_TASKS_COLUMNS)
            return refuse(table, "", "too many columns");
        if (meaning != IGNORED && is_there[meaning])
            return refuse(table, name_of(meaning), "a column named twice");
        is_there[meaning] = true;
        table->meaning[table->width++] = meaning;
    }
    for (int i = 0; i <= ID; i++)
        if (!is_there[i])
            return refuse(table, name_of(i), "no such column in the header");
    return 0;
}

/* ---- rows --------------------------------------------------------------------------------- */

static int read_cell(struct table *table, int meaning, const char *cell,
                     struct lull_dvfs_task *task)
{
    double value;
    int64_t id;

    if (meaning == IGNORED)
        return 0;
    if (meaning == ID) {
        if (lull_text_parse_int(cell, 0, INT64_MAX, &id) < 0)
            return refuse(table, name_of(meaning), "not a whole number");
        task->id = (uint64_t)id;
        return 0;
    }
    if (lull_text_parse_number(cell, &value) < 0)
        return refuse(table, name_of(meaning), "not a number");
    if (!(value >= 0.0 && value <= columns[meaning].max))
        return refuse(table, name_of(meaning),
                      columns[meaning].max < most ? "not from 0 to 1" : "not from 0 to 1e9");
    memcpy((char *)task + columns[meaning].offset, &value, sizeof(value));
    return 0;
}

static int check(struct table *table, const struct lull_dvfs_task *task)
{
    if (!(task->scaled_s + task->constant_s > 0.0))
        return refuse(table, "d", "with t0 it is no time at all");
    if (!(task->constant_w + task->memory_w + task->core_w > 0.0))
        return refuse(table, "p0_w", "with gamma_w and cg_w it is no power at all");
    if (!(task->deadline_s > task->arrival_s))
        return refuse(table, "deadline", "not after the arrival");
    return 0;
}

static int read_row(struct table *table, char *line, struct lull_dvfs_task *task_out)
{
    char *rest = line;

    *task_out = (struct lull_dvfs_task){0};
    for (size_t i = 0; i < table->width; i++) {
        int rc;

        if (rest == NULL)
            return refuse(table, "", "fewer cells than the header has");
        rc = read_cell(table, table->meaning[i], lull_lines_cell(&rest), task_out);
        if (rc < 0)
            return rc;
    }
    if (rest != NULL)
        return refuse(table, "", "more cells than the header has");
    return check(table, task_out);
}

static int append(struct table *table, const struct lull_dvfs_task *task)
{
    if (table->count == table->room) {
        const size_t room = table->room > 0 ? 2 * table->room : 256;
        struct lull_dvfs_task *const tasks = realloc(table->tasks, room * sizeof(*tasks));

        if (tasks == NULL)
            return lull_error_set(table->err, -ENOMEM, "%s: no memory for %zu tasks",
                                  lull_lines_name(table->lines), room);
        table->tasks = tasks;
        table->room = room;
    }
    table->tasks[table->count++] = *task;
    return 0;
}

static int read_rows(struct table *table)
{
    struct lull_dvfs_task task;
    char *line = NULL;
    int rc = 0;

    while (rc >= 0 && (rc = lull_lines_next(table->lines, &line, table->err)) > 0) {
        rc = read_row(table, line, &task);
        if (rc == 0)
            rc = append(table, &task);
    }
    if (rc == 0 && table->count == 0)
        rc = lull_error_set(table->err, -ENODATA, "%s: a header and no tasks",
                            lull_lines_name(table->lines));
    return rc;
}

int lull_dvfs_tasks_read_lines(struct lull_lines *lines, struct lull_dvfs_task **tasks_out,
                               size_t *count_out, struct lull_error *err)
{
    struct table table = {.lines = lines, .err = err};
    int rc = read_header(&table);

    if (rc == 0)
        rc = read_rows(&table);
    if (rc < 0) {
        free(table.tasks);
        return rc;
    }
    *tasks_out = table.tasks;
    *count_out = table.count;
    return 0;
}

int lull_dvfs_tasks_read(const char *path, struct lull_dvfs_task **tasks_out, size_t *count_out,
                         struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc = lull_lines_open(path, &lines, err);

    if (rc == 0)
        rc = lull_dvfs_tasks_read_lines(lines, tasks_out, count_out, err);
    lull_lines_close(lines);
    return rc;
}
