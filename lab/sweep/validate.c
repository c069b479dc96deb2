/*
 * Checks of a dataset that need no GPU. Only rows that count as valid are checked: marked rows are
 * known to be bad. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_string.h"
#include "cli/shared/command.h"
#include "lab/sweep/curves.h"
#include "lab/sweep/files.h"
#include "lab/sweep/output.h"
#include "device/device.h"

/* Margin by which a time may rise, or a power fall, with a higher clock: in sets that are known to
 * be good at most 8 of 1,500 steps exceed it (docs/research/dataset.md). Also the margin of the
 * ratio test. */
static const double margin_ratio = 0.03;

enum { SHOWN = 100 }; /* findings that are printed; the rest is counted */

struct judgement {
    const char *path;
    const struct lull_sweep_table *table;
    json_t *findings;
    uint64_t found;
    uint32_t kernels;
    struct lull_moments time_noise; /* standard deviations of repeats of a base, of its mean */
    struct lull_moments power_noise;
};

static void __attribute__((format(printf, 2, 3)))
sweep_validate_find(struct judgement *judgement, const char *format, ...)
{
    char text[320];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (judgement->found++ < SHOWN)
        json_array_append_new(judgement->findings, lull_json_string(text));
}

/* ---- the sidecar --------------------------------------------------------------------------- */

static bool is_unit_of(const json_t *sidecar, const char *unit)
{
    const json_t *const merged = json_object_get(sidecar, "merged");
    const char *const hash =
        json_string_value(json_object_get(json_object_get(sidecar, "gpu"), "uuid_hash"));
    json_t *source;
    size_t i;

    if (merged == NULL)
        return hash != NULL && strcmp(hash, unit) == 0;
    json_array_foreach(
        (json_t *)merged, i,
        source) if (is_unit_of(json_object_get(source, "sidecar"), unit)) return true;
    return false;
}

static void judge_sidecar(struct judgement *judgement)
{
    const struct lull_sweep_table *const table = judgement->table;
    char path[PATH_MAX];
    struct lull_error err = {0};
    json_t *sidecar = NULL;

    if (lull_sweep_sidecar_path(judgement->path, path, &err) < 0 ||
        lull_sweep_sidecar_read(path, &sidecar, &err) < 0) {
        sweep_validate_find(judgement, "sidecar: %s", err.text);
        return;
    }
    if (json_integer_value(json_object_get(sidecar, "rows")) != (json_int_t)table->count)
        sweep_validate_find(
            judgement, "sidecar: it describes %" JSON_INTEGER_FORMAT " rows, the table has %zu",
            json_integer_value(json_object_get(sidecar, "rows")), table->count);
    for (size_t i = 0; i < table->count; i++)
        if ((i == 0 || strcmp(table->rows[i].unit, table->rows[i - 1].unit) != 0) &&
            !is_unit_of(sidecar, table->rows[i].unit))
            sweep_validate_find(judgement, "sidecar: does not describe GPU %s of row %zu",
                                table->rows[i].unit, i + 1);
    json_decref(sidecar);
}

/* ---- the rows ------------------------------------------------------------------------------ */

static void judge_rows(struct judgement *judgement)
{
    const struct lull_sweep_table *const table = judgement->table;

    for (size_t i = 0; i < table->count; i++) {
        const struct lull_sweep_row *const row = &table->rows[i];
        const struct lull_sweep_result *const result = &row->result;
        const double expected_j = result->power_w * result->window_s;

        if (fabs(result->energy_j / expected_j - 1.0) > 1e-3)
            sweep_validate_find(judgement, "row %zu: energy_j is not power_w x window_s", i + 1);
        if (result->sm_min_mhz > result->sm_mhz || result->sm_mhz > result->sm_max_mhz)
            sweep_validate_find(judgement,
                                "row %zu: sm_mhz is not between sm_mhz_min and sm_mhz_max", i + 1);
    }
}

static void judge_step(struct judgement *judgement, const struct lull_sweep_curve *curve, size_t i)
{
    const struct lull_sweep_curve_point *const low = &curve->points[i];
    const struct lull_sweep_curve_point *const high = &curve->points[i + 1];
    const struct lull_sweep_row *const row = curve->first;

    if (high->time_ms.mean > low->time_ms.mean * (1.0 + margin_ratio))
        sweep_validate_find(judgement, "%s %s: slower at %g MHz than at %g MHz, by %.1f %%",
                            row->kernel, row->arg, high->sm_mhz, low->sm_mhz,
                            100.0 * (high->time_ms.mean / low->time_ms.mean - 1.0));
    if (low->power_w.count > 0 && high->power_w.count > 0 &&
        low->power_w.mean > high->power_w.mean * (1.0 + margin_ratio))
        sweep_validate_find(judgement, "%s %s: draws less at %g MHz than at %g MHz, by %.1f %%",
                            row->kernel, row->arg, high->sm_mhz, low->sm_mhz,
                            100.0 * (1.0 - high->power_w.mean / low->power_w.mean));
}

static void judge_clocks(struct judgement *judgement, const struct lull_sweep_curve *curve)
{
    const struct lull_sweep_curve_point *const top = &curve->points[curve->count - 1];
    const struct lull_sweep_row *const row = curve->first;

    for (size_t i = 0; i + 1 < curve->count; i++) {
        judge_step(judgement, curve, i);
        if (lull_sweep_is_impossible(curve->points[i].sm_mhz, curve->points[i].time_ms.mean,
                                     top->sm_mhz, top->time_ms.mean, margin_ratio))
            sweep_validate_find(
                judgement,
                "%s %s: %g MHz was not in force: it is slower there than that clock can "
                "make it",
                row->kernel, row->arg, curve->points[i].sm_mhz);
    }
}

static void judge_curve(struct judgement *judgement, const struct lull_sweep_curve *curve)
{
    const struct lull_sweep_curve_point *const top = &curve->points[curve->count - 1];

    /* If a power limit of the rows holds the clock down, the clock is not the one that was set. */
    if ((curve->reasons & LULL_CLOCK_REASON_POWER_CAP) == 0)
        judge_clocks(judgement, curve);
    if (top->time_ms.count > 1)
        lull_moments_add(&judgement->time_noise,
                         sqrt(lull_moments_variance(&top->time_ms)) / top->time_ms.mean);
    if (top->power_w.count > 1)
        lull_moments_add(&judgement->power_noise,
                         sqrt(lull_moments_variance(&top->power_w)) / top->power_w.mean);
}

static int judge_curves(struct judgement *judgement, struct lull_error *err)
{
    struct lull_sweep_curves curves;
    const int result = lull_sweep_curves_make(judgement->table, &curves, err);

    if (result < 0)
        return result;
    judgement->kernels = (uint32_t)curves.count;
    for (size_t i = 0; i < curves.count; i++)
        judge_curve(judgement, &curves.curves[i]);
    lull_sweep_curves_fini(&curves);
    return 0;
}

/* ---- the verdict --------------------------------------------------------------------------- */

static json_t *noise_json(const struct lull_moments *noise)
{
    return noise->count > 0 ? json_real(noise->mean) : json_null();
}

static void sweep_validate_print_json(const struct judgement *judgement, uint64_t marked)
{
    lull_cli_print_json(
        json_pack("{s:b, s:I, s:I, s:i, s:o, s:o, s:I, s:O}", "is_valid", judgement->found == 0,
                  "rows", (json_int_t)judgement->table->count, "marked_rows", (json_int_t)marked,
                  "curves", (int)judgement->kernels, "time_noise_ratio",
                  noise_json(&judgement->time_noise), "power_noise_ratio",
                  noise_json(&judgement->power_noise), "findings_count",
                  (json_int_t)judgement->found, "findings", judgement->findings),
        0);
}

static void sweep_validate_print_text(const struct judgement *judgement, uint64_t marked)
{
    json_t *finding;
    size_t i;

    printf("%s: %zu rows, %" PRIu64 " of them marked; %u curves of kernels\n", judgement->path,
           judgement->table->count, marked, judgement->kernels);
    if (judgement->time_noise.count > 0)
        printf("noise floor: repeats of the base scatter by %.2f %% in time",
               100.0 * judgement->time_noise.mean);
    if (judgement->time_noise.count > 0 && judgement->power_noise.count > 0)
        printf(", %.2f %% in power", 100.0 * judgement->power_noise.mean);
    if (judgement->time_noise.count > 0)
        printf("\n");
    json_array_foreach(judgement->findings, i, finding) printf("%s\n", json_string_value(finding));
    if (judgement->found > SHOWN)
        printf("and %" PRIu64 " more\n", judgement->found - SHOWN);
    printf(judgement->found == 0 ? "nothing is wrong with it\n" : "not valid\n");
}

int lull_sweep_validate(const char *path, bool is_json, struct lull_error *err)
{
    struct lull_sweep_table table;
    struct judgement judgement = {.path = path, .table = &table};
    uint64_t marked = 0;
    int result = lull_sweep_table_read(path, &table, err);

    if (result < 0)
        return result;
    judgement.findings = json_array();
    for (size_t i = 0; i < table.count; i++)
        marked += table.rows[i].result.marks != 0;
    judge_sidecar(&judgement);
    judge_rows(&judgement);
    result = judge_curves(&judgement, err);
    if (result == 0 && is_json)
        sweep_validate_print_json(&judgement, marked);
    else if (result == 0)
        sweep_validate_print_text(&judgement, marked);
    if (result == 0 && judgement.found > 0)
        result = 1;
    json_decref(judgement.findings);
    lull_sweep_table_fini(&table);
    return result;
}
