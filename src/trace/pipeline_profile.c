/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pipeline_profile.h"

#include <errno.h>
#include <string.h>

#include "core/pipeline/model/fit.h"
#include "trace/columns.h"
#include "trace/decimal.h"

enum profile_field { STAGE, INSTRUCTION, FREQUENCY, TIME, ENERGY, PARTNER };

enum { LARGEST_MHZ = 100000 };

/* ---- rows ---- */

static int read_stage(const struct lull_columns *columns, enum profile_field field,
                      uint32_t *stage_out, struct lull_error *err)
{
    int64_t stage = 0;
    const int rc = lull_columns_integer(columns, field, 0, LULL_PIPELINE_MAX_STAGES - 1,
                                        "not a stage from 0 to 4095", &stage, err);

    *stage_out = (uint32_t)stage;
    return rc;
}

static int read_kind(const struct lull_columns *columns, enum lull_pipeline_kind *kind_out,
                     uint32_t *partner_out, struct lull_error *err)
{
    if (lull_pipeline_kind_parse(columns->cells[INSTRUCTION], kind_out) < 0 ||
        *kind_out == LULL_PIPELINE_FIXED)
        return lull_columns_refuse(columns, INSTRUCTION,
                                   "not forward, backward, input, weight, recompute or overlap",
                                   err);
    if (*kind_out != LULL_PIPELINE_OVERLAP)
        return 0;
    if (!lull_columns_has(columns, PARTNER))
        return lull_columns_refuse(columns, INSTRUCTION, "not possible without a column 'partner'",
                                   err);
    return read_stage(columns, PARTNER, partner_out, err);
}

/* Decimals are read exactly, in nanoseconds and nanojoules, as plans must add up to the last digit.
 * */
static int read_quantity(const struct lull_columns *columns, enum profile_field field,
                         int64_t least, int64_t most, const char *what, int64_t *value_out,
                         struct lull_error *err)
{
    enum { NANO = 9 };
    const char *cell = columns->cells[field];
    const int rc = lull_decimal_parse(cell, strlen(cell), NANO, value_out);

    if (rc == -EINVAL)
        return lull_columns_refuse(columns, field, "not a number", err);
    if (rc < 0 || *value_out < least || *value_out > most)
        return lull_columns_refuse(columns, field, what, err);
    return 0;
}

static int read_point(const struct lull_columns *columns, struct lull_pipeline_point *point_out,
                      struct lull_error *err)
{
    int64_t sm_mhz = 0;
    int rc = lull_columns_integer(columns, FREQUENCY, 1, LARGEST_MHZ,
                                  "not a clock in MHz, a whole number", &sm_mhz, err);

    if (rc < 0)
        return rc;
    rc = read_quantity(columns, TIME, 1, LULL_PIPELINE_MAX_TIME_NS, "not between 1 ns and 100 s",
                       &point_out->time_ns, err);
    if (rc < 0)
        return rc;
    point_out->sm_mhz = (uint32_t)sm_mhz;
    return read_quantity(columns, ENERGY, 0, LULL_PIPELINE_MAX_ENERGY_NJ, "not between 0 and 10 MJ",
                         &point_out->energy_nj, err);
}

static int add_row(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct lull_pipeline_point point;
    struct lull_error why = {0};
    enum lull_pipeline_kind kind = LULL_PIPELINE_FORWARD;
    uint32_t stage = 0;
    uint32_t partner = 0;
    int rc = read_stage(columns, STAGE, &stage, err);

    if (rc < 0)
        return rc;
    rc = read_kind(columns, &kind, &partner, err);
    if (rc < 0)
        return rc;
    rc = read_point(columns, &point, err);
    if (rc < 0)
        return rc;
    rc = lull_pipeline_profile_add(context, 0, stage, kind, partner, &point, &why);
    if (rc == -ENOMEM)
        return lull_error_set(err, rc, "%s: %s", columns->name, why.text);
    return rc < 0 ? lull_columns_refuse(columns, FREQUENCY, why.text, err) : 0;
}

/* ---- the whole ---- */

static bool has_kind(const struct lull_pipeline_profile *profile, enum lull_pipeline_kind kind)
{
    for (size_t i = 0; i < profile->class_count; i++)
        if (profile->classes[i].kind == kind)
            return true;
    return false;
}

/* Each kind that occurs must occur in every stage; overlaps are of pairs, and free. */
static int check_complete(const struct lull_pipeline_profile *profile, const char *path,
                          struct lull_error *err)
{
    const uint32_t stages = lull_pipeline_profile_stages(profile);

    if (stages == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: there are no rows after the header", path);
    for (int kind = 0; kind < LULL_PIPELINE_KINDS; kind++) {
        const enum lull_pipeline_kind wanted = (enum lull_pipeline_kind)kind;

        for (uint32_t s = 0; kind != LULL_PIPELINE_OVERLAP && s < stages; s++)
            if (has_kind(profile, wanted) &&
                lull_pipeline_profile_find(profile, 0, s, wanted, 0) < 0)
                return lull_error_set(err, LULL_E_FORMAT,
                                      "%s: stage %u of 0 to %u has no %s; every stage needs the "
                                      "instructions that the others have",
                                      path, s, stages - 1, lull_pipeline_kind_name(wanted));
    }
    return 0;
}

int lull_pipeline_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                               struct lull_error *err)
{
    static const struct lull_column known[] = {
        {"stage", STAGE}, {"instruction", INSTRUCTION}, {"frequency", FREQUENCY},
        {"time", TIME},   {"energy", ENERGY},           {"partner", PARTNER},
        {NULL},
    };
    static const struct lull_table table = {known, (1u << PARTNER) - 1, NULL, add_row};
    struct lull_pipeline_profile profile;
    int rc;

    lull_pipeline_profile_init(&profile);
    rc = lull_columns_read(path, &table, &profile, err);
    if (rc >= 0)
        rc = check_complete(&profile, path, err);
    if (rc < 0)
        lull_pipeline_profile_fini(&profile);
    else
        *profile_out = profile;
    return rc;
}
