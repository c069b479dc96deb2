/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option_value.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

const char *lull_option_word(const struct lull_option *row, uint32_t index)
{
    if (row->word_at != NULL)
        return row->word_at(index);
    return row->words != NULL ? row->words[index] : NULL;
}

static bool option_value_find_word(const struct lull_option *row, const char *text,
                                   uint32_t *index_out)
{
    const char *word;

    for (uint32_t i = 0; (word = lull_option_word(row, i)) != NULL; i++)
        if (strcmp(word, text) == 0) {
            *index_out = i;
            return true;
        }
    return false;
}

static int option_value_take_whole(const struct lull_option *row, const char *text, void *place)
{
    const bool is_wide = row->size == sizeof(int64_t);
    int64_t most = is_wide ? INT64_MAX : UINT32_MAX;
    int64_t value;
    uint32_t narrow;

    assert(is_wide || row->size == sizeof(narrow));
    if (row->most > 0.0)
        most = (int64_t)row->most;
    if (lull_text_parse_int(text, (int64_t)row->least, most, &value) < 0)
        return -EINVAL;
    narrow = (uint32_t)value;
    memcpy(place, is_wide ? (const void *)&value : (const void *)&narrow, row->size);
    return 0;
}

int lull_option_refuse_bare(double value, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL, "that would be %g %%; write %g%% or %g", 100.0 * value,
                          value, value / 100.0);
}

static int option_value_take_number(const struct lull_option *row, const char *text, void *place,
                                    struct lull_error *err)
{
    const double most = row->most > 0.0 ? row->most : INFINITY;
    double value;
    int rc;

    assert(row->size == sizeof(value));
    if (row->is_slowdown && lull_text_is_bare_percent(text, &value))
        return lull_option_refuse_bare(value, err);
    if (row->type == LULL_OPTION_RATIO)
        rc = lull_text_parse_ratio(text, &value);
    else
        rc = lull_text_parse_number(text, &value);
    if (rc < 0 || value < row->least || value > most || (row->is_open && value <= row->least))
        return -EINVAL;
    memcpy(place, &value, sizeof(value));
    return 0;
}

/* The units that values represent in the help. */
static const struct option_unit {
    const char *value;
    const char *name;
    double ns; /* of a time */
} units[] = {{"W", "watts", 0.0},       {"MS", "milliseconds", 1e6},
             {"S", "seconds", 1e9},     {"J", "joules", 0.0},
             {"MHZ", "megahertz", 0.0}, {"H", "hours", 3.6e12},
             {"MIN", "minutes", 6e10},  {NULL, NULL, 0.0}};

/* Finds the unit of a row; for a value that is no unit the last one, which has no name. */
static const struct option_unit *option_value_unit_of(const struct lull_option *row)
{
    const struct option_unit *unit = units;

    while (unit->name != NULL && (row->value == NULL || strcmp(row->value, unit->value) != 0))
        unit++;
    return unit;
}

static int take_time(const struct lull_option *row, const char *text, void *place)
{
    const double unit_ns = option_value_unit_of(row)->ns;
    double value;
    int64_t time_ns;

    assert(row->size == sizeof(time_ns) && unit_ns > 0.0 && row->most > 0.0);
    if (lull_text_parse_between(text, row->least, row->most, &value) < 0)
        return -EINVAL;
    time_ns = (int64_t)(value * unit_ns);
    if (row->is_open && (double)time_ns <= row->least * unit_ns)
        return -EINVAL;
    memcpy(place, &time_ns, sizeof(time_ns));
    return 0;
}

int lull_option_take_value(const struct lull_option *row, const char *text, void *place,
                           struct lull_error *err)
{
    uint32_t index;

    switch (row->type) {
    case LULL_OPTION_FLAG:
        assert(row->size == sizeof(bool));
        *(bool *)place = true;
        return 0;
    case LULL_OPTION_WHOLE:
        return option_value_take_whole(row, text, place);
    case LULL_OPTION_NUMBER:
    case LULL_OPTION_RATIO:
        return option_value_take_number(row, text, place, err);
    case LULL_OPTION_TIME:
        return take_time(row, text, place);
    case LULL_OPTION_WORD:
        assert(row->size == sizeof(index));
        if (!option_value_find_word(row, text, &index))
            return -EINVAL;
        memcpy(place, &index, sizeof(index));
        return 0;
    case LULL_OPTION_TEXT:
        assert(row->size == sizeof(text));
        if (lull_option_word(row, 0) != NULL && !option_value_find_word(row, text, &index))
            return -EINVAL;
        memcpy(place, &text, sizeof(text));
        return 0;
    default:
        return row->parse(text, place, err);
    }
}

static void option_value_print_words(const struct lull_option *row, FILE *out)
{
    const char *word = lull_option_word(row, 0);

    for (uint32_t i = 1; word != NULL; i++) {
        const char *const next = lull_option_word(row, i);

        if (i > 1)
            fputs(next == NULL ? " or " : ", ", out);
        fputs(word, out);
        word = next;
    }
}

static void print_bound(const struct lull_option *row, double value, FILE *out)
{
    if (row->type == LULL_OPTION_RATIO)
        fprintf(out, "%.10g%%", 100.0 * value);
    else
        fprintf(out, "%.10g", value);
}

static void option_value_print_range(const struct lull_option *row, FILE *out)
{
    const double most = row->type == LULL_OPTION_RATIO && row->most == 0.0 ? 1.0 : row->most;

    fputs(row->is_open ? " above " : " from ", out);
    print_bound(row, row->least, out);
    if (most > 0.0) {
        fputs(row->is_open ? ", at most " : " to ", out);
        print_bound(row, most, out);
    } else if (!row->is_open) {
        fputs(" on", out);
    }
}

void lull_option_print_expected(const struct lull_option *row, FILE *out)
{
    static const char *const kinds[] = {[LULL_OPTION_WHOLE] = "a whole number",
                                        [LULL_OPTION_NUMBER] = "a number",
                                        [LULL_OPTION_TIME] = "a number",
                                        [LULL_OPTION_RATIO] = "a ratio such as 1% or 0.01,"};
    const char *const unit = option_value_unit_of(row)->name;

    if (row->expected != NULL) {
        fputs(row->expected, out);
    } else if (row->words != NULL || row->word_at != NULL) {
        option_value_print_words(row, out);
    } else {
        fputs(kinds[row->type], out);
        option_value_print_range(row, out);
        if (unit != NULL)
            fprintf(out, ", in %s", unit);
    }
}
