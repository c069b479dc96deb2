/*
 * The published task sets and the results recorded for them, if they are available
 * (LULL_SCHED_DATA). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_TESTS_REPRODUCE_EDL_EDL_CASE_H
#define LULL_LAB_TESTS_REPRODUCE_EDL_EDL_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/text.h"
#include "lab/reproduce/edl/edl.h"
#include "lab/reproduce/edl/tasks.h"
#include "trace/lines.h"

#define EDL_DATA LULL_SCHED_DATA "/edl/"

static inline int edl_is_absent(void)
{
    return access(EDL_DATA "golden_online.csv", R_OK) != 0;
}

struct edl_set {
    char name[64];
    struct lull_dvfs_task *tasks;
    size_t count;
};

/* A set by its file's name without .csv.gz; read once and kept. */
static inline const struct edl_set *edl_read(const char *name)
{
    static struct edl_set sets[16];
    char path[512];
    struct lull_error err = {0};
    size_t i = 0;

    while (sets[i].tasks != NULL && strcmp(sets[i].name, name) != 0)
        i++;
    if (sets[i].tasks != NULL)
        return &sets[i];
    snprintf(sets[i].name, sizeof(sets[i].name), "%s", name);
    snprintf(path, sizeof(path), EDL_DATA "%s.csv.gz", name);
    if (lull_dvfs_tasks_read(path, &sets[i].tasks, &sets[i].count, &err) < 0)
        fail_msg("%s", err.text);
    return &sets[i];
}

enum { EDL_CELLS = 32 };

/* One row of a table as texts; they hold until the next. 0: none is left. */
static inline size_t edl_row(struct lull_lines *lines, char **cells)
{
    struct lull_error err = {0};
    char *rest = NULL;
    size_t count = 0;

    if (lull_lines_next(lines, &rest, &err) <= 0) {
        assert_string_equal(err.text, "");
        return 0;
    }
    while (rest != NULL && count < EDL_CELLS)
        cells[count++] = lull_lines_cell(&rest);
    return count;
}

static inline double edl_number(const char *text)
{
    double value = 0.0;

    if (lull_text_parse_number(text, &value) < 0)
        fail_msg("%s is no number", text);
    return value;
}

static inline struct lull_lines *edl_open(const char *path)
{
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};

    if (lull_lines_open(path, &lines, &err) < 0)
        fail_msg("%s", err.text);
    return lines;
}

/* "edf+spt" and similar ones. */
static inline void edl_set_rule(struct lull_edl_config *config, const char *rule)
{
    static const char *const places[] = {"spt", "bf", "wf", "ff", "bin"};
    int place = 0;

    config->order = strncmp(rule, "lpt+", 4) == 0 ? LULL_EDL_LPT : LULL_EDL_EDF;
    while (strcmp(rule + 4, places[place]) != 0)
        assert_true(++place < 5);
    config->place = (enum lull_edl_place)place;
}

#endif
