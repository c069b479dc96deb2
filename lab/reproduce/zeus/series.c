/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/series.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

/* Kind of the values of a column. */
enum series_kind { COUNT, FLAG, NUMBER, BOUND, EPOCHS, PHASE, ORDER, ARMS };

struct series_column {
    const char *name;
    enum series_kind kind;
    size_t offset;
};

#define AT(member) offsetof(struct lull_batch_golden_row, member)

static const struct series_column columns[] = {
    {"step", COUNT, AT(step)},
    {"recurrence", COUNT, AT(recurrence)},
    {"attempt", COUNT, AT(attempt)},
    {"phase", PHASE, AT(is_pruning)},
    {"bs", COUNT, AT(size)},
    {"pl", NUMBER, AT(limit_w)},
    {"profile_power", FLAG, AT(is_profiling)},
    {"cost_ub", BOUND, AT(bound)},
    {"n_paths", COUNT, AT(path_count)},
    {"path_pos", COUNT, AT(path_index)},
    {"run", COUNT, AT(path_run)},
    {"target_epoch", EPOCHS, AT(epochs)},
    {"max_epochs", COUNT, AT(max_epochs)},
    {"energy_j", NUMBER, AT(energy_j)},
    {"time_s", NUMBER, AT(time_s)},
    {"reached", FLAG, AT(has_reached)},
    {"cost_seen", NUMBER, AT(cost)},
    {"perm", ORDER, AT(order)},
    {"arms", ARMS, AT(arms)},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static int zeus_series_parse_count(const char *text, uint32_t *count_out)
{
    int64_t value;

    if (lull_text_parse_int(text, 0, UINT32_MAX, &value) < 0)
        return -EINVAL;
    *count_out = (uint32_t)value;
    return 0;
}

/* Takes the next word of *rest up to a separator, which it overwrites. NULL: there is none. */
static char *zeus_series_next_word(char **rest, char separator)
{
    char *const word = *rest;
    char *end;

    if (word == NULL || *word == '\0')
        return NULL;
    end = strchr(word, separator);
    if (end != NULL)
        *end = '\0';
    *rest = end == NULL ? NULL : end + 1;
    return word;
}

static int parse_order(char *text, struct lull_batch_golden_row *row)
{
    char *word;

    while ((word = zeus_series_next_word(&text, ' ')) != NULL)
        if (row->order_count == LULL_BATCH_GOLDEN_ARMS ||
            zeus_series_parse_count(word, &row->order[row->order_count++]) < 0)
            return -EINVAL;
    return 0;
}

static int parse_arm(char *text, struct lull_batch_golden_arm *arm)
{
    const char *const size = zeus_series_next_word(&text, ':');
    const char *const mean = zeus_series_next_word(&text, ':');
    const char *const deviation = zeus_series_next_word(&text, ':');

    if (size == NULL || mean == NULL || deviation == NULL || text == NULL ||
        zeus_series_parse_count(size, &arm->size) < 0 ||
        lull_text_parse_number(mean, &arm->mean) < 0 ||
        lull_text_parse_number(deviation, &arm->deviation) < 0 ||
        lull_text_parse_number(text, &arm->sample) < 0)
        return -EINVAL;
    return 0;
}

static int parse_arms(char *text, struct lull_batch_golden_row *row)
{
    char *word;

    while ((word = zeus_series_next_word(&text, ' ')) != NULL)
        if (row->arm_count == LULL_BATCH_GOLDEN_ARMS ||
            parse_arm(word, &row->arms[row->arm_count++]) < 0)
            return -EINVAL;
    return 0;
}

static int parse_flag(const char *text, const char *yes, const char *no, bool *flag_out)
{
    *flag_out = strcmp(text, yes) == 0;
    return *flag_out || strcmp(text, no) == 0 ? 0 : -EINVAL;
}

static int parse_or(const char *text, const char *word, double meaning, double *value_out)
{
    if (strcmp(text, word) != 0)
        return lull_text_parse_number(text, value_out);
    *value_out = meaning;
    return 0;
}

static int parse_cell(const struct series_column *column, char *text,
                      struct lull_batch_golden_row *row)
{
    void *const to = (char *)row + column->offset;

    switch (column->kind) {
    case COUNT:
        return zeus_series_parse_count(text, to);
    case FLAG:
        return parse_flag(text, "1", "0", to);
    case NUMBER:
        return lull_text_parse_number(text, to);
    case BOUND:
        return parse_or(text, "inf", INFINITY, to);
    case EPOCHS:
        return parse_or(text, "nan", NAN, to);
    case PHASE:
        return parse_flag(text, "P", "M", to);
    case ORDER:
        return parse_order(text, row);
    case ARMS:
        break;
    }
    return parse_arms(text, row);
}

int lull_batch_golden_begin(struct lull_lines *lines, struct lull_error *err)
{
    char *rest = NULL;
    const int rc = lull_lines_next(lines, &rest, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < COLUMNS; i++)
        if (rc == 0 || rest == NULL || strcmp(lull_lines_cell(&rest), columns[i].name) != 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: line 1: column %zu is not %s",
                                  lull_lines_name(lines), i + 1, columns[i].name);
    if (rest != NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line 1: more than %d columns",
                              lull_lines_name(lines), COLUMNS);
    return 0;
}

int lull_batch_golden_next(struct lull_lines *lines, struct lull_batch_golden_row *row_out,
                           struct lull_error *err)
{
    char *rest = NULL;
    const int rc = lull_lines_next(lines, &rest, err);

    if (rc <= 0)
        return rc;
    *row_out = (struct lull_batch_golden_row){0};
    for (size_t i = 0; i < COLUMNS; i++)
        if (rest == NULL || parse_cell(&columns[i], lull_lines_cell(&rest), row_out) < 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s cannot be read",
                                  lull_lines_name(lines), lull_lines_number(lines),
                                  columns[i].name);
    if (rest != NULL || (row_out->path_count > 0 && row_out->path_index >= row_out->path_count))
        return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s", lull_lines_name(lines),
                              lull_lines_number(lines),
                              rest != NULL ? "there are too many cells"
                                           : "path_pos is not below n_paths");
    return 1;
}
