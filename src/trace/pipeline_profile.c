/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pipeline_profile.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "core/pipeline/model/fit.h"
#include "trace/decimal.h"
#include "trace/lines.h"

enum column { STAGE, INSTRUCTION, FREQUENCY, TIME, ENERGY, PARTNER, COLUMNS };

static const char *const column_names[COLUMNS] = {"stage", "instruction", "frequency",
                                                  "time",  "energy",      "partner"};

enum { ABSENT = 0, LARGEST_MHZ = 100000 };

struct pipeline_profile_reader {
    struct lull_lines *lines;
    struct lull_pipeline_profile *profile;
    struct lull_error *err;
    uint32_t place[COLUMNS]; /* from 1; ABSENT */
    uint32_t columns;        /* of the header */
    char *cells[COLUMNS];    /* of the row; NULL: absent */
};

static int refuse(const struct pipeline_profile_reader *reader, enum column column,
                  const char *instead)
{
    const char *cell = reader->cells[column] != NULL ? reader->cells[column] : "";

    return lull_error_set(reader->err, LULL_E_FORMAT,
                          "%s: row %zu, column %u (%s): '%.40s' is not %s",
                          lull_lines_name(reader->lines), lull_lines_number(reader->lines),
                          reader->place[column], column_names[column], cell, instead);
}

/* ---- header ---- */

static void note_column(struct pipeline_profile_reader *reader, const char *name)
{
    reader->columns++;
    for (int i = 0; i < COLUMNS; i++)
        if (strcmp(name, column_names[i]) == 0 && reader->place[i] == ABSENT)
            reader->place[i] = reader->columns;
}

static int read_header(struct pipeline_profile_reader *reader)
{
    const char *const name = lull_lines_name(reader->lines);
    char *rest;
    const int rc = lull_lines_next(reader->lines, &rest, reader->err);

    if (rc == 0)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: the file is empty", name);
    if (rc < 0)
        return rc;
    while (rest != NULL)
        note_column(reader, lull_lines_cell(&rest));
    for (int i = 0; i < PARTNER; i++)
        if (reader->place[i] == ABSENT)
            return lull_error_set(reader->err, LULL_E_FORMAT,
                                  "%s: row 1: no column '%s'; the header must name "
                                  "stage,instruction,frequency,time,energy",
                                  name, column_names[i]);
    return 0;
}

/* ---- rows ---- */

static int split_row(struct pipeline_profile_reader *reader, char *rest)
{
    uint32_t column = 0;

    memset(reader->cells, 0, sizeof(reader->cells));
    while (rest != NULL) {
        char *const cell = lull_lines_cell(&rest);

        column++;
        for (int i = 0; i < COLUMNS; i++)
            if (reader->place[i] == column)
                reader->cells[i] = cell;
    }
    if (column != reader->columns)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: row %zu: %u columns, the header has %u",
                              lull_lines_name(reader->lines), lull_lines_number(reader->lines),
                              column, reader->columns);
    return 0;
}

static int parse_stage(const struct pipeline_profile_reader *reader, enum column column,
                       uint32_t *stage_out)
{
    int64_t stage;

    if (lull_text_parse_int(reader->cells[column], 0, LULL_PIPELINE_MAX_STAGES - 1, &stage) < 0)
        return refuse(reader, column, "a stage from 0 to 4095");
    *stage_out = (uint32_t)stage;
    return 0;
}

static int parse_kind(const struct pipeline_profile_reader *reader,
                      enum lull_pipeline_kind *kind_out, uint32_t *partner_out)
{
    enum lull_pipeline_kind kind;

    if (lull_pipeline_kind_parse(reader->cells[INSTRUCTION], &kind) < 0 ||
        kind == LULL_PIPELINE_FIXED)
        return refuse(reader, INSTRUCTION,
                      "forward, backward, input, weight, recompute or overlap");
    *kind_out = kind;
    *partner_out = 0;
    if (kind != LULL_PIPELINE_OVERLAP)
        return 0;
    if (reader->place[PARTNER] == ABSENT)
        return refuse(reader, INSTRUCTION, "possible without a column 'partner'");
    return parse_stage(reader, PARTNER, partner_out);
}

static int parse_quantity(const struct pipeline_profile_reader *reader, enum column column,
                          int64_t least, int64_t most, const char *instead, int64_t *value_out)
{
    enum { NANO = 9 };
    const char *cell = reader->cells[column];
    int64_t value;
    const int rc = lull_decimal_parse(cell, strlen(cell), NANO, &value);

    if (rc == -EINVAL)
        return refuse(reader, column, "a number");
    if (rc < 0 || value < least || value > most)
        return refuse(reader, column, instead);
    *value_out = value;
    return 0;
}

static int parse_option(const struct pipeline_profile_reader *reader,
                        struct lull_pipeline_point *point_out)
{
    int64_t sm_mhz;
    int rc;

    if (lull_text_parse_int(reader->cells[FREQUENCY], 1, LARGEST_MHZ, &sm_mhz) < 0)
        return refuse(reader, FREQUENCY, "a clock in MHz, a whole number");
    rc = parse_quantity(reader, TIME, 1, LULL_PIPELINE_MAX_TIME_NS, "between 1 ns and 100 s",
                        &point_out->time_ns);
    if (rc < 0)
        return rc;
    point_out->sm_mhz = (uint32_t)sm_mhz;
    return parse_quantity(reader, ENERGY, 0, LULL_PIPELINE_MAX_ENERGY_NJ, "between 0 and 10 MJ",
                          &point_out->energy_nj);
}

static int add_row(struct pipeline_profile_reader *reader, char *text)
{
    struct lull_pipeline_point option = {0};
    struct lull_error why = {0};
    enum lull_pipeline_kind kind = LULL_PIPELINE_FORWARD;
    uint32_t stage = 0;
    uint32_t partner = 0;
    int rc = split_row(reader, text);

    rc = rc < 0 ? rc : parse_stage(reader, STAGE, &stage);
    rc = rc < 0 ? rc : parse_kind(reader, &kind, &partner);
    rc = rc < 0 ? rc : parse_option(reader, &option);
    if (rc < 0)
        return rc;
    rc = lull_pipeline_profile_add(reader->profile, stage, kind, partner, &option, &why);
    if (rc < 0)
        return lull_error_set(reader->err, rc == -ENOMEM ? rc : LULL_E_FORMAT,
                              "%s: row %zu, column %u (frequency): %.150s",
                              lull_lines_name(reader->lines), lull_lines_number(reader->lines),
                              reader->place[FREQUENCY], why.text);
    return 0;
}

/* ---- the whole ---- */

static uint32_t count_stages(const struct lull_pipeline_profile *profile)
{
    uint32_t stages = 0;

    for (size_t i = 0; i < profile->class_count; i++)
        if (profile->classes[i].stage >= stages)
            stages = profile->classes[i].stage + 1;
    return stages;
}

static bool has_kind(const struct lull_pipeline_profile *profile, enum lull_pipeline_kind kind)
{
    for (size_t i = 0; i < profile->class_count; i++)
        if (profile->classes[i].kind == kind)
            return true;
    return false;
}

/* Each kind that occurs must occur in every stage; overlaps are of pairs, and free. */
static int check_complete(const struct pipeline_profile_reader *reader)
{
    const struct lull_pipeline_profile *profile = reader->profile;
    const uint32_t stages = count_stages(profile);
    const char *const name = lull_lines_name(reader->lines);

    if (stages == 0)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: no rows behind the header", name);
    for (int kind = 0; kind < LULL_PIPELINE_KINDS; kind++) {
        const enum lull_pipeline_kind wanted = (enum lull_pipeline_kind)kind;

        for (uint32_t s = 0; kind != LULL_PIPELINE_OVERLAP && s < stages; s++)
            if (has_kind(profile, wanted) && lull_pipeline_profile_find(profile, s, wanted, 0) < 0)
                return lull_error_set(reader->err, LULL_E_FORMAT,
                                      "%s: stage %u of 0 to %u has no %s; every stage needs the "
                                      "instructions that the others have",
                                      name, s, stages - 1, lull_pipeline_kind_name(wanted));
    }
    return 0;
}

static int read_rows(struct pipeline_profile_reader *reader)
{
    char *text;
    int rc = read_header(reader);

    if (rc < 0)
        return rc;
    while ((rc = lull_lines_next(reader->lines, &text, reader->err)) > 0) {
        if (text[0] == '\0')
            continue;
        rc = add_row(reader, text);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : check_complete(reader);
}

static int read_lines(struct lull_lines *lines, struct lull_pipeline_profile *profile_out,
                      struct lull_error *err)
{
    struct lull_pipeline_profile profile;
    struct pipeline_profile_reader reader = {.lines = lines, .profile = &profile, .err = err};
    int rc;

    lull_pipeline_profile_init(&profile);
    rc = read_rows(&reader);
    lull_lines_close(lines);
    if (rc < 0)
        lull_pipeline_profile_fini(&profile);
    else
        *profile_out = profile;
    return rc;
}

int lull_pipeline_profile_read(const char *path, struct lull_pipeline_profile *profile_out,
                               struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open(path, &lines, err);

    return rc < 0 ? rc : read_lines(lines, profile_out, err);
}

int lull_pipeline_profile_read_memory(const char *name, const char *text, size_t size,
                                      struct lull_pipeline_profile *profile_out,
                                      struct lull_error *err)
{
    struct lull_lines *lines;
    const int rc = lull_lines_open_memory(name, text, size, &lines, err);

    return rc < 0 ? rc : read_lines(lines, profile_out, err);
}
