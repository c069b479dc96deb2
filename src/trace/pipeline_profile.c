/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pipeline_profile.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "core/pipeline/model/fit.h"
#include "trace/array.h"
#include "trace/columns.h"

enum profile_field { STAGE, INSTRUCTION, FREQUENCY, TIME, ENERGY, PARTNER, DP_RANK, TP_RANK };

enum { LARGEST_MHZ = 100000, LARGEST_RANK = 1 << 20 };

/* A row as it stands: what one rank measured. */
struct rank_row {
    uint32_t stage;
    enum lull_pipeline_kind kind;
    uint32_t partner;
    uint32_t dp_rank;
    uint32_t tp_rank;
    struct lull_pipeline_point point;
    size_t line;
};

/* A file while it is read. */
struct profile_reading {
    const char *path;
    struct rank_row *rows;
    size_t count;
    struct lull_pipeline_profile_notes notes;
};

/* ---- instructions ---- */

/* Copies a word in small letters, without what separates its parts; what does not fit is cut. */
static void profile_table_simplify(const char *word, char *simple, size_t size)
{
    size_t used = 0;

    for (; *word != '\0' && used + 1 < size; word++)
        if (strchr("_- .", *word) == NULL)
            simple[used++] = (char)tolower((unsigned char)*word);
    simple[used] = '\0';
}

/* Finds an instruction by the words of other tools. Returns LULL_PIPELINE_FIXED for one that has no
 * clock to choose, -1 for one that is not known. */
static int find_instruction(const char *word)
{
    static const struct {
        const char *word;
        enum lull_pipeline_kind kind;
    } words[] = {
        {"f", LULL_PIPELINE_FORWARD},
        {"fwd", LULL_PIPELINE_FORWARD},
        {"forward", LULL_PIPELINE_FORWARD},
        {"forwardpass", LULL_PIPELINE_FORWARD},
        {"forwardstep", LULL_PIPELINE_FORWARD},
        {"b", LULL_PIPELINE_BACKWARD},
        {"bwd", LULL_PIPELINE_BACKWARD},
        {"backward", LULL_PIPELINE_BACKWARD},
        {"backwardpass", LULL_PIPELINE_BACKWARD},
        {"backwardstep", LULL_PIPELINE_BACKWARD},
        {"input", LULL_PIPELINE_INPUT},
        {"backwardinput", LULL_PIPELINE_INPUT},
        {"backwardinputpass", LULL_PIPELINE_INPUT},
        {"inputgrad", LULL_PIPELINE_INPUT},
        {"dgrad", LULL_PIPELINE_INPUT},
        {"weight", LULL_PIPELINE_WEIGHT},
        {"backwardweight", LULL_PIPELINE_WEIGHT},
        {"backwardweightpass", LULL_PIPELINE_WEIGHT},
        {"weightgrad", LULL_PIPELINE_WEIGHT},
        {"wgrad", LULL_PIPELINE_WEIGHT},
        {"recompute", LULL_PIPELINE_RECOMPUTE},
        {"overlap", LULL_PIPELINE_OVERLAP},
        {"loadmicrobatch", LULL_PIPELINE_FIXED},
        {"sendactivation", LULL_PIPELINE_FIXED},
        {"recvactivation", LULL_PIPELINE_FIXED},
        {"sendgrad", LULL_PIPELINE_FIXED},
        {"recvgrad", LULL_PIPELINE_FIXED},
        {"reducegrads", LULL_PIPELINE_FIXED},
        {"reducetiedgrads", LULL_PIPELINE_FIXED},
        {"optimizerstep", LULL_PIPELINE_FIXED},
    };
    char simple[32];

    profile_table_simplify(word, simple, sizeof(simple));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(simple, words[i].word) == 0)
            return (int)words[i].kind;
    return -1;
}

/* ---- rows ---- */

static int profile_table_read_number(const struct lull_columns *columns, enum profile_field field,
                                     int64_t most, const char *what, uint32_t *number_out,
                                     struct lull_error *err)
{
    int64_t number = 0;
    int rc;

    if (!lull_columns_has(columns, field))
        return 0;
    rc = lull_columns_integer(columns, field, 0, most, what, &number, err);
    *number_out = (uint32_t)number;
    return rc;
}

static int read_stage(const struct lull_columns *columns, enum profile_field field,
                      uint32_t *stage_out, struct lull_error *err)
{
    return profile_table_read_number(columns, field, LULL_PIPELINE_MAX_STAGES - 1,
                                     "not a stage from 0 to 4095", stage_out, err);
}

/* Decimals are read exactly, in nanoseconds and nanojoules, as plans must add up to the last digit;
 * the unit of a column is its decimal places to those. */
static int profile_table_read_point(const struct lull_columns *columns,
                                    struct lull_pipeline_point *point_out, struct lull_error *err)
{
    int64_t sm_mhz = 0;
    int rc = lull_columns_integer(columns, FREQUENCY, 1, LARGEST_MHZ,
                                  "not a clock in MHz, a whole number", &sm_mhz, err);

    if (rc < 0)
        return rc;
    rc = lull_columns_decimal(columns, TIME,
                              &(struct lull_columns_range){(int)columns->at[TIME]->unit, 1,
                                                           LULL_PIPELINE_MAX_TIME_NS,
                                                           "not between 1 ns and 100 s"},
                              &point_out->time_ns, err);
    if (rc < 0)
        return rc;
    point_out->sm_mhz = (uint32_t)sm_mhz;
    return lull_columns_decimal(columns, ENERGY,
                                &(struct lull_columns_range){(int)columns->at[ENERGY]->unit, 0,
                                                             LULL_PIPELINE_MAX_ENERGY_NJ,
                                                             "not between 0 and 10 MJ"},
                                &point_out->energy_nj, err);
}

static int profile_table_read_row(const struct lull_columns *columns, struct rank_row *row,
                                  struct lull_error *err)
{
    int rc = read_stage(columns, STAGE, &row->stage, err);

    if (rc == 0 && row->kind == LULL_PIPELINE_OVERLAP) {
        if (!lull_columns_has(columns, PARTNER))
            return lull_columns_refuse(columns, INSTRUCTION,
                                       "not possible without a column 'partner'", err);
        rc = read_stage(columns, PARTNER, &row->partner, err);
    }
    if (rc == 0)
        rc = profile_table_read_number(columns, DP_RANK, LARGEST_RANK, "not a rank", &row->dp_rank,
                                       err);
    if (rc == 0)
        rc = profile_table_read_number(columns, TP_RANK, LARGEST_RANK, "not a rank", &row->tp_rank,
                                       err);
    return rc < 0 ? rc : profile_table_read_point(columns, &row->point, err);
}

static int profile_table_add_row(const struct lull_columns *columns, void *context,
                                 struct lull_error *err)
{
    struct profile_reading *const reading = context;
    const int kind = find_instruction(columns->cells[INSTRUCTION]);
    struct rank_row row = {.line = columns->line_of[INSTRUCTION]};
    int rc;

    if (kind < 0)
        return lull_columns_refuse(columns, INSTRUCTION,
                                   "not forward, backward, input, weight, recompute or overlap",
                                   err);
    if (kind == LULL_PIPELINE_FIXED) {
        reading->notes.other_rows++;
        return 0;
    }
    if (!lull_columns_has_value(columns, FREQUENCY) || !lull_columns_has_value(columns, TIME) ||
        !lull_columns_has_value(columns, ENERGY)) {
        reading->notes.blank_rows++;
        return 0;
    }
    row.kind = (enum lull_pipeline_kind)kind;
    rc = profile_table_read_row(columns, &row, err);
    if (rc < 0)
        return rc;
    return lull_trace_append(&reading->rows, &reading->count, &row, sizeof(row), columns->name,
                             err);
}

/* ---- ranks ---- */

static int profile_table_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Compares the fields that identify an operating point. */
static int compare_points(const struct rank_row *a, const struct rank_row *b)
{
    if (a->stage != b->stage)
        return profile_table_compare(a->stage, b->stage);
    if (a->kind != b->kind)
        return profile_table_compare(a->kind, b->kind);
    if (a->partner != b->partner)
        return profile_table_compare(a->partner, b->partner);
    return profile_table_compare(a->point.sm_mhz, b->point.sm_mhz);
}

static int profile_table_by_rank(const void *a, const void *b)
{
    const struct rank_row *left = a;
    const struct rank_row *right = b;
    const int order = compare_points(left, right);

    if (order != 0)
        return order;
    if (left->dp_rank != right->dp_rank)
        return profile_table_compare(left->dp_rank, right->dp_rank);
    if (left->tp_rank != right->tp_rank)
        return profile_table_compare(left->tp_rank, right->tp_rank);
    return profile_table_compare((int64_t)left->line, (int64_t)right->line);
}

static int refuse_twice(const struct profile_reading *reading, const struct rank_row *row,
                        struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: line %zu, frequency: %s of stage %u has a row for %u MHz already; "
                          "rows of several ranks need a column dp_rank or tp_rank",
                          reading->path, row->line, lull_pipeline_kind_name(row->kind), row->stage,
                          row->point.sm_mhz);
}

/* Counts the rows from begin on that are of the same point and dp_rank. */
static size_t count_shards(const struct profile_reading *reading, size_t begin, size_t end)
{
    size_t count = 0;

    while (begin + count < end &&
           reading->rows[begin + count].dp_rank == reading->rows[begin].dp_rank)
        count++;
    return count;
}

/* Makes one operating point of the rows from begin to end. A dp_rank with a missing shard is left
 * out, because it would make the stage look cheaper than it is. */
static int profile_table_merge(struct profile_reading *reading, size_t begin, size_t end,
                               struct lull_pipeline_point *point_out, struct lull_error *err)
{
    double time_ns = 0.0;
    double energy_nj = 0.0;
    uint32_t copies = 0;
    size_t most = 0;

    for (size_t i = begin; i < end; i += count_shards(reading, i, end))
        if (count_shards(reading, i, end) > most)
            most = count_shards(reading, i, end);
    for (size_t i = begin; i < end;) {
        const size_t shards = count_shards(reading, i, end);
        int64_t longest_ns = 0;

        for (size_t k = i; k < i + shards; k++) {
            const struct rank_row *const row = &reading->rows[k];

            if (k > i && row->tp_rank == row[-1].tp_rank)
                return refuse_twice(reading, row, err);
            if (row->point.time_ns > longest_ns)
                longest_ns = row->point.time_ns;
            energy_nj += shards == most ? (double)row->point.energy_nj : 0.0;
        }
        i += shards;
        if (shards < most) {
            reading->notes.partial_copies++;
            continue;
        }
        time_ns += (double)longest_ns;
        copies++;
    }
    reading->notes.copies = lull_max_u32(reading->notes.copies, copies);
    reading->notes.shards = lull_max_u32(reading->notes.shards, (uint32_t)most);
    *point_out = (struct lull_pipeline_point){
        llround(time_ns / copies), llround(energy_nj / copies), reading->rows[begin].point.sm_mhz};
    return 0;
}

static int merge_ranks(struct profile_reading *reading, struct lull_pipeline_profile *profile,
                       struct lull_error *err)
{
    if (reading->count > 0)
        qsort(reading->rows, reading->count, sizeof(*reading->rows), profile_table_by_rank);
    for (size_t i = 0; i < reading->count;) {
        const struct rank_row *const row = &reading->rows[i];
        struct lull_pipeline_point point;
        struct lull_error why = {0};
        size_t end = i + 1;
        int rc;

        while (end < reading->count && compare_points(row, &reading->rows[end]) == 0)
            end++;
        rc = profile_table_merge(reading, i, end, &point, err);
        if (rc < 0)
            return rc;
        rc = lull_pipeline_profile_add(profile, 0, row->stage, row->kind, row->partner, &point,
                                       &why);
        if (rc < 0)
            return lull_error_set(err, rc == -ENOMEM ? rc : LULL_E_FORMAT, "%s: line %zu: %.200s",
                                  reading->path, row->line, why.text);
        i = end;
    }
    return 0;
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
                               struct lull_pipeline_profile_notes *notes_out,
                               struct lull_error *err)
{
    enum { NANO = 9, MICRO = 6, MILLI = 3 };
    static const struct lull_column known[] = {
        {"stage", STAGE},
        {"instruction", INSTRUCTION},
        {"frequency", FREQUENCY},
        {"time", TIME, NANO},
        {"energy", ENERGY, NANO},
        {"partner", PARTNER},
        {"dp_rank", DP_RANK},
        {"tp_rank", TP_RANK},
        {"stage_id", STAGE, 0, true},
        {"pp_rank", STAGE, 0, true},
        {"instr", INSTRUCTION, 0, true},
        {"instruction_name", INSTRUCTION, 0, true},
        {"op", INSTRUCTION, 0, true},
        {"freq", FREQUENCY, 0, true},
        {"frequency_mhz", FREQUENCY, 0, true},
        {"freq_mhz", FREQUENCY, 0, true},
        {"sm_mhz", FREQUENCY, 0, true},
        {"sm_clock_mhz", FREQUENCY, 0, true},
        {"time_s", TIME, NANO, true},
        {"time_ms", TIME, MICRO, true},
        {"time_us", TIME, MILLI, true},
        {"latency_ms", TIME, MICRO, true},
        {"duration_ms", TIME, MICRO, true},
        {"energy_j", ENERGY, NANO, true},
        {"energy_mj", ENERGY, MICRO, true},
        {NULL},
    };
    static const struct lull_table table = {known, (1u << PARTNER) - 1, "lull-plan(1)", NULL,
                                            profile_table_add_row};
    struct profile_reading reading = {.path = path};
    struct lull_pipeline_profile profile;
    int rc;

    lull_pipeline_profile_init(&profile);
    rc = lull_columns_read(path, &table, &reading, err);
    if (rc >= 0)
        rc = merge_ranks(&reading, &profile, err);
    if (rc >= 0)
        rc = check_complete(&profile, path, err);
    free(reading.rows);
    if (rc < 0) {
        lull_pipeline_profile_fini(&profile);
        return rc;
    }
    *profile_out = profile;
    if (notes_out != NULL)
        *notes_out = reading.notes;
    return 0;
}
