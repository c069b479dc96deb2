/*
 * For tests: the published power-limit logs (LULL_ZEUS_DATA), one row per limit.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_TUNING_POWER_LOG_H
#define LULL_TESTS_CORE_TUNING_POWER_LOG_H

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/tuning/cost.h"
#include "../property.h"
#include "trace/lines.h"

#define PROFILES LULL_ZEUS_DATA "/profile_data/"

static inline double power_log_number(const char *text)
{
    double value = 0.0;

    assert_int_equal(lull_text_parse_number(text, &value), 0);
    return value;
}

/* Points from the highest limit down; returns how many. */
static inline size_t power_log_read(const char *name, struct lull_cost_point *points, size_t limit)
{
    char path[512];
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};
    char *rest = NULL;
    size_t count = 0;

    snprintf(path, sizeof(path), "%s%s", PROFILES, name);
    assert_int_equal(lull_lines_open(path, &lines, &err), 0);
    assert_int_equal(lull_lines_next(lines, &rest, &err), 1);
    while (lull_lines_next(lines, &rest, &err) == 1 && count < limit) {
        struct lull_cost_point *point = &points[count++];

        lull_lines_cell(&rest);
        point->level = power_log_number(strrchr(lull_lines_cell(&rest), '_') + 1);
        point->time_s = power_log_number(lull_lines_cell(&rest));
        point->energy_j = 0.0;
        while (rest != NULL)
            point->energy_j += power_log_number(lull_lines_cell(&rest));
    }
    lull_lines_close(lines);
    return count;
}

#endif
