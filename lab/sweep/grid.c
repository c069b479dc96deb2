/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/grid.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const struct lull_sweep_axes lull_sweep_axes_default = {
    .sm = {.count = LULL_SWEEP_COARSE}, .mem = {.count = 1}, .limit = {.count = 1}};

/* ---- the text ------------------------------------------------------------------------------ */

static int sweep_grid_parse_values(char *text, struct lull_sweep_axis *axis)
{
    for (char *at = text; at != NULL;) {
        char *const slash = strchr(at, '/');
        int64_t value;

        if (slash != NULL)
            *slash = '\0';
        if (axis->value_count == LULL_SWEEP_AXIS_VALUES ||
            lull_text_parse_int(at, 1, 1000000, &value) < 0)
            return -EINVAL;
        axis->values[axis->value_count++] = (uint32_t)value;
        at = slash != NULL ? slash + 1 : NULL;
    }
    return 0;
}

/* limit=250 probably means 250 W, not 250 values; watts need two values, as in limit=250/300. */
enum { MAX_LIMITS = 32 };

static int parse_axis(char *text, bool is_sm, struct lull_sweep_axis *axis)
{
    int64_t count;

    *axis = (struct lull_sweep_axis){.count = 0};
    if (strchr(text, '/') != NULL)
        return sweep_grid_parse_values(text, axis);
    axis->is_all = strcmp(text, "all") == 0 || strcmp(text, "auto") == 0;
    axis->is_adaptive = strcmp(text, "auto") == 0;
    if (axis->is_all)
        return axis->is_adaptive && !is_sm ? -EINVAL : 0;
    if (lull_text_parse_int(text, 1, is_sm ? LULL_SWEEP_AXIS_VALUES : MAX_LIMITS, &count) < 0)
        return -EINVAL;
    axis->count = (uint32_t)count;
    return 0;
}

int lull_sweep_axes_parse(const char *text, struct lull_sweep_axes *axes, struct lull_error *err)
{
    struct lull_sweep_axes parsed = *axes;
    struct {
        const char *name;
        struct lull_sweep_axis *axis;
    } const named[] = {{"sm", &parsed.sm}, {"mem", &parsed.mem}, {"limit", &parsed.limit}};
    char copy[4096];
    char *rest = copy;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return lull_error_set(err, -EINVAL, "is longer than 4095 characters");
    while (rest != NULL) {
        char *const part = strsep(&rest, ",");
        char *const value = strchr(part, '=');
        bool is_known = false;

        if (value != NULL)
            *value = '\0';
        for (size_t i = 0; i < sizeof(named) / sizeof(named[0]) && value != NULL; i++)
            if (strcmp(part, named[i].name) == 0)
                is_known = parse_axis(value + 1, i == 0, named[i].axis) == 0;
        if (!is_known)
            return lull_error_set(err, -EINVAL, "%.40s: give " LULL_SWEEP_GRID_EXPECTED, part);
    }
    *axes = parsed;
    return 0;
}

/* ---- the points ---------------------------------------------------------------------------- */

static int sweep_grid_compare(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

static void sweep_grid_sort(struct lull_sweep_axis *axis)
{
    uint32_t count = 0;

    qsort(axis->values, axis->value_count, sizeof(axis->values[0]), sweep_grid_compare);
    for (uint32_t i = 0; i < axis->value_count; i++)
        if (count == 0 || axis->values[count - 1] != axis->values[i])
            axis->values[count++] = axis->values[i];
    axis->value_count = count;
}

static bool sweep_grid_has_clock(const struct lull_device_info *info, uint32_t mhz)
{
    for (uint32_t i = 0; i < info->sm_clock_count; i++)
        if (info->sm_clocks_mhz[i] == mhz)
            return true;
    return false;
}

/* The highest clock is always among them: it is the base. */
static int sweep_grid_choose_clocks(const struct lull_sweep_axis *wanted,
                                    const struct lull_device_info *info,
                                    struct lull_sweep_axis *chosen, struct lull_error *err)
{
    const uint32_t all = info->sm_clock_count;
    const uint32_t count = wanted->is_all || wanted->count > all ? all : wanted->count;

    *chosen = *wanted;
    for (uint32_t i = 0; i < count; i++)
        chosen->values[chosen->value_count++] =
            info->sm_clocks_mhz[count == 1 ? 0 : (all - 1) * i / (count - 1)];
    for (uint32_t i = 0; i < wanted->value_count; i++)
        if (!sweep_grid_has_clock(info, wanted->values[i]))
            return lull_error_set(
                err, -EINVAL, "--grid: %s has no SM clock of %u MHz; see lull gpus for its clocks",
                info->name, wanted->values[i]);
    if (chosen->value_count < LULL_SWEEP_AXIS_VALUES)
        chosen->values[chosen->value_count++] = info->sm_clocks_mhz[0];
    sweep_grid_sort(chosen);
    return 0;
}

static int sweep_grid_check_memory(const struct lull_sweep_axis *wanted, uint32_t mem_mhz,
                                   struct lull_error *err)
{
    for (uint32_t i = 0; i < wanted->value_count; i++)
        if (wanted->values[i] != mem_mhz)
            return lull_error_set(err, LULL_E_UNSUPPORTED,
                                  "--grid: the memory clock stays at %u MHz, since lulld does not "
                                  "set memory clocks; leave out mem",
                                  mem_mhz);
    return 0;
}

/* Limits in W from the lowest to the one that is found, which is always among them. */
static int choose_limits(const struct lull_sweep_axis *wanted, const struct lull_device_info *info,
                         uint32_t limit_mw, struct lull_sweep_axis *chosen, struct lull_error *err)
{
    const uint32_t min_w = (info->power_limit_min_mw + 999) / 1000;
    const uint32_t most_w = limit_mw / 1000;
    const uint32_t count = wanted->is_all ? LULL_SWEEP_COARSE : wanted->count;

    *chosen = (struct lull_sweep_axis){.count = 0};
    for (uint32_t i = 0; i < wanted->value_count; i++) {
        if (wanted->values[i] < min_w || wanted->values[i] > most_w)
            return lull_error_set(err, -EINVAL,
                                  "--grid: the power limit of %s can be set from %u to %u W",
                                  info->name, min_w, most_w);
        chosen->values[chosen->value_count++] = wanted->values[i];
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        chosen->values[chosen->value_count++] = min_w + (most_w - min_w) * i / (count - 1);
    if (chosen->value_count > 0 && (info->capabilities & LULL_CAPABILITY_POWER_LIMIT) == 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "--grid: the power limit of %s cannot be set; leave out limit",
                              info->name);
    chosen->values[chosen->value_count++] = most_w;
    sweep_grid_sort(chosen);
    return 0;
}

static void sweep_grid_fill(struct lull_sweep_points *points, const struct lull_sweep_axis *sm,
                            const struct lull_sweep_axis *limit, uint32_t mem_mhz,
                            uint32_t limit_mw)
{
    /* Lower limits are measured at the coarse clocks only where the line is refined. */
    const uint32_t stride =
        points->is_adaptive ? (sm->value_count - 1) / (LULL_SWEEP_COARSE - 1) : 1;

    for (uint32_t l = limit->value_count; l-- > 0;) {
        const bool is_own = l + 1 < limit->value_count;

        for (uint32_t s = 0; s < sm->value_count; s++) {
            if (is_own && (sm->value_count - 1 - s) % stride != 0)
                continue;
            points->settings[points->count++] = (struct lull_sweep_setting){
                .sm_mhz = sm->values[s],
                .mem_mhz = mem_mhz,
                .limit_mw = is_own ? 1000 * limit->values[l] : limit_mw,
                .has_own_limit = is_own,
            };
        }
    }
    for (uint32_t s = 0; s < sm->value_count; s++)
        points->sm_mhz[s] = sm->values[s];
}

int lull_sweep_points_make(const struct lull_sweep_axes *axes, const struct lull_device_info *info,
                           uint32_t mem_mhz, uint32_t limit_mw,
                           struct lull_sweep_points *points_out, struct lull_error *err)
{
    struct lull_sweep_axis sm = {.count = 0}, limit = {.count = 0};
    struct lull_sweep_points points = {.count = 0};
    int result = sweep_grid_choose_clocks(&axes->sm, info, &sm, err);

    if (result == 0)
        result = sweep_grid_check_memory(&axes->mem, mem_mhz, err);
    if (result == 0)
        result = choose_limits(&axes->limit, info, limit_mw, &limit, err);
    if (result < 0)
        return result;
    if ((uint64_t)sm.value_count * limit.value_count > LULL_SWEEP_POINTS)
        return lull_error_set(err, -EINVAL, "--grid: there are more than %d points",
                              LULL_SWEEP_POINTS);
    assert(sm.value_count > 0 && limit.value_count > 0); /* the base is always among them */
    points.line = sm.value_count;
    points.is_adaptive = sm.is_adaptive && sm.value_count > LULL_SWEEP_COARSE;
    points.has_limits = limit.value_count > 1;
    points.settings = calloc((size_t)sm.value_count * limit.value_count, sizeof(*points.settings));
    points.sm_mhz = calloc(sm.value_count, sizeof(*points.sm_mhz));
    if (points.settings == NULL || points.sm_mhz == NULL) {
        lull_sweep_points_fini(&points);
        return lull_error_set(err, -ENOMEM, "not enough memory for the points");
    }
    sweep_grid_fill(&points, &sm, &limit, mem_mhz, limit_mw);
    *points_out = points;
    return 0;
}

void lull_sweep_points_fini(struct lull_sweep_points *points)
{
    free(points->sm_mhz);
    free(points->settings);
    *points = (struct lull_sweep_points){.count = 0};
}

double lull_sweep_step_mhz(const struct lull_device_info *info, uint32_t sm_mhz)
{
    double step = 0.0;

    for (uint32_t i = 0; i < info->sm_clock_count; i++) {
        if (info->sm_clocks_mhz[i] != sm_mhz)
            continue;
        if (i > 0)
            step = fmax(step, info->sm_clocks_mhz[i - 1] - sm_mhz);
        if (i + 1 < info->sm_clock_count)
            step = fmax(step, sm_mhz - info->sm_clocks_mhz[i + 1]);
    }
    return step;
}
