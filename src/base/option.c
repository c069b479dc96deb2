/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/text.h"

/* One row of any of the tables, and what the command line said of it. */
struct option_slot {
    const struct lull_option *row;
    char *into;       /* the struct of its table */
    const char *text; /* the last value given, "" for a flag; null: it was not there */
};

struct option_reading {
    const struct lull_option_reader *reader;
    struct option_slot slots[LULL_OPTION_MAX_ROWS];
    uint32_t count;
    enum lull_option_result result;
};

static void option_collect(struct option_reading *reading)
{
    const struct lull_option_table *table = reading->reader->tables;

    for (uint32_t i = 0; i < LULL_OPTION_MAX_TABLES && table[i].rows != NULL; i++)
        for (const struct lull_option *row = table[i].rows; row->help != NULL; row++) {
            if (row->type == LULL_OPTION_GROUP)
                continue;
            assert(reading->count < LULL_OPTION_MAX_ROWS);
            reading->slots[reading->count++] = (struct option_slot){
                .row = row, .into = (char *)reading->reader->options + table[i].offset};
        }
}

/* ---- words that are near ------------------------------------------------------------------- */

enum { LONGEST_WORD = 48 };

/* Counts the insertions, deletions, replacements and swaps of neighbours that make one word the
 * other. */
static uint32_t option_distance(const char *a, const char *b)
{
    uint32_t rows[3][LONGEST_WORD + 1];
    const size_t width = strlen(b);

    if (strlen(a) > LONGEST_WORD || width > LONGEST_WORD)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= width; j++)
        rows[0][j] = j;
    for (uint32_t i = 1; a[i - 1] != '\0'; i++) {
        uint32_t *const now = rows[i % 3];
        const uint32_t *const before = rows[(i - 1) % 3];

        now[0] = i;
        for (uint32_t j = 1; j <= width; j++) {
            now[j] = lull_min_u32(before[j - 1] + (a[i - 1] != b[j - 1]),
                                  lull_min_u32(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = lull_min_u32(now[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[strlen(a) % 3][width];
}

struct lull_nearest lull_nearest_begin(const char *word)
{
    /* One slip in a short word, one more for each four letters: */
    return (struct lull_nearest){.word = word, .distance = 2 + (uint32_t)strlen(word) / 4};
}

void lull_nearest_try(struct lull_nearest *nearest, const char *candidate)
{
    const size_t length = strlen(nearest->word);
    uint32_t found = option_distance(nearest->word, candidate);

    if (length >= 3 && strncmp(nearest->word, candidate, length) == 0)
        found = 1; /* its beginning */
    if (found < nearest->distance) {
        nearest->best = candidate;
        nearest->distance = found;
    }
}

/* ---- values -------------------------------------------------------------------------------- */

const char *lull_option_word(const struct lull_option *row, uint32_t index)
{
    if (row->word_at != NULL)
        return row->word_at(index);
    return row->words != NULL ? row->words[index] : NULL;
}

static bool option_find_word(const struct lull_option *row, const char *text, uint32_t *index_out)
{
    const char *word;

    for (uint32_t i = 0; (word = lull_option_word(row, i)) != NULL; i++)
        if (strcmp(word, text) == 0) {
            *index_out = i;
            return true;
        }
    return false;
}

static int option_take_whole(const struct lull_option *row, const char *text, void *place)
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

static int option_take_number(const struct lull_option *row, const char *text, void *place,
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
static const struct option_unit *option_unit_of(const struct lull_option *row)
{
    const struct option_unit *unit = units;

    while (unit->name != NULL && (row->value == NULL || strcmp(row->value, unit->value) != 0))
        unit++;
    return unit;
}

static int take_time(const struct lull_option *row, const char *text, void *place)
{
    const double unit_ns = option_unit_of(row)->ns;
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

/* Takes the text if it is a value that the row allows. Prints nothing. */
static int option_take_value(const struct option_slot *slot, const char *text,
                             struct lull_error *err)
{
    const struct lull_option *const row = slot->row;
    void *const place = slot->into + row->offset;
    uint32_t index;

    switch (row->type) {
    case LULL_OPTION_FLAG:
        assert(row->size == sizeof(bool));
        *(bool *)place = true;
        return 0;
    case LULL_OPTION_WHOLE:
        return option_take_whole(row, text, place);
    case LULL_OPTION_NUMBER:
    case LULL_OPTION_RATIO:
        return option_take_number(row, text, place, err);
    case LULL_OPTION_TIME:
        return take_time(row, text, place);
    case LULL_OPTION_WORD:
        assert(row->size == sizeof(index));
        if (!option_find_word(row, text, &index))
            return -EINVAL;
        memcpy(place, &index, sizeof(index));
        return 0;
    case LULL_OPTION_TEXT:
        assert(row->size == sizeof(text));
        if (lull_option_word(row, 0) != NULL && !option_find_word(row, text, &index))
            return -EINVAL;
        memcpy(place, &text, sizeof(text));
        return 0;
    default:
        return row->parse(text, place, err);
    }
}

/* ---- messages ------------------------------------------------------------------------------ */

static int refer_to_help(const struct option_reading *reading)
{
    fprintf(stderr, "Try `%s --help`.\n", reading->reader->name);
    return -EINVAL;
}

static void option_print_words(const struct lull_option *row, FILE *out)
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

static void option_print_range(const struct lull_option *row, FILE *out)
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

/* Describes the values that an option takes; an error text puts it after "give ". */
static void print_expected(const struct lull_option *row, FILE *out)
{
    static const char *const kinds[] = {[LULL_OPTION_WHOLE] = "a whole number",
                                        [LULL_OPTION_NUMBER] = "a number",
                                        [LULL_OPTION_TIME] = "a number",
                                        [LULL_OPTION_RATIO] = "a ratio such as 1% or 0.01,"};
    const char *const unit = option_unit_of(row)->name;

    if (row->expected != NULL) {
        fputs(row->expected, out);
    } else if (row->words != NULL || row->word_at != NULL) {
        option_print_words(row, out);
    } else {
        fputs(kinds[row->type], out);
        option_print_range(row, out);
        if (unit != NULL)
            fprintf(out, ", in %s", unit);
    }
}

/* variable: the value is that of this variable of the environment; null: of the option. */
static int refuse_value(const struct option_reading *reading, const struct lull_option *row,
                        const char *variable, const char *text, int code,
                        const struct lull_error *err)
{
    struct lull_nearest nearest = lull_nearest_begin(text);
    const char *word;

    for (uint32_t i = 0; (word = lull_option_word(row, i)) != NULL; i++)
        lull_nearest_try(&nearest, word);
    if (variable != NULL)
        fprintf(stderr, "%s: %s=%s: ", reading->reader->name, variable, text);
    else
        fprintf(stderr, "%s: --%s %s: ", reading->reader->name, row->name, text);
    if (err->code != 0) {
        fputs(err->text, stderr);
    } else {
        fputs("give ", stderr);
        print_expected(row, stderr);
        if (nearest.best != NULL)
            fprintf(stderr, "; did you mean %s?", nearest.best);
    }
    fputc('\n', stderr);
    refer_to_help(reading);
    return code;
}

/* ---- options ------------------------------------------------------------------------------- */

static int option_set(struct option_reading *reading, struct option_slot *slot, const char *text)
{
    struct lull_error err = {0};
    int rc = 0;

    slot->text = text != NULL ? text : "";
    if (slot->row->given != 0)
        *(bool *)(slot->into + slot->row->given - 1) = true;
    if (text != NULL || slot->row->type == LULL_OPTION_FLAG)
        rc = option_take_value(slot, text, &err);
    return rc < 0 ? refuse_value(reading, slot->row, NULL, text, rc, &err) : 0;
}

enum match { MATCH_NONE, MATCH_PREFIX, MATCH_EXACT };

static enum match match_name(const char *name, const char *word, size_t length)
{
    if (strncmp(name, word, length) != 0)
        return MATCH_NONE;
    return name[length] == '\0' ? MATCH_EXACT : MATCH_PREFIX;
}

/* The nearest name is offered, because most unknown options are typing errors. */
static int refuse_option(const struct option_reading *reading, const char *word, size_t length)
{
    char name[LONGEST_WORD + 1];
    struct lull_nearest nearest = lull_nearest_begin(name);

    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    nearest = lull_nearest_begin(name);
    for (uint32_t i = 0; i < reading->count; i++)
        lull_nearest_try(&nearest, reading->slots[i].row->name);
    fprintf(stderr, "%s: unknown option --%s", reading->reader->name, name);
    if (nearest.best != NULL)
        fprintf(stderr, "; did you mean --%s?", nearest.best);
    fputc('\n', stderr);
    return refer_to_help(reading);
}

/* Finds the option of a long name. Returns null, after a message, where no row or several have it.
 * */
static struct option_slot *find_long(struct option_reading *reading, const char *word,
                                     size_t length)
{
    struct option_slot *found = NULL;
    uint32_t prefixes = 0;

    for (uint32_t i = 0; i < reading->count; i++) {
        const enum match match = match_name(reading->slots[i].row->name, word, length);

        if (match == MATCH_EXACT)
            return &reading->slots[i];
        if (match == MATCH_PREFIX) {
            found = &reading->slots[i];
            prefixes++;
        }
    }
    if (prefixes == 1)
        return found;
    if (prefixes == 0) {
        refuse_option(reading, word, length);
        return NULL;
    }
    fprintf(stderr, "%s: --%.*s is the beginning of several options:", reading->reader->name,
            (int)length, word);
    for (uint32_t i = 0; i < reading->count; i++)
        if (match_name(reading->slots[i].row->name, word, length) == MATCH_PREFIX)
            fprintf(stderr, " --%s", reading->slots[i].row->name);
    fputc('\n', stderr);
    refer_to_help(reading);
    return NULL;
}

static int refuse_missing_value(const struct option_reading *reading, const struct lull_option *row)
{
    fprintf(stderr, "%s: --%s needs a value: give ", reading->reader->name, row->name);
    if (row->type == LULL_OPTION_TEXT || (row->type == LULL_OPTION_OWN && row->expected == NULL))
        fputs(row->value, stderr);
    else
        print_expected(row, stderr);
    fputc('\n', stderr);
    return refer_to_help(reading);
}

/* The options that every command line accepts without a row for them. */
static bool take_standard(struct option_reading *reading, const char *word, size_t length)
{
    static const struct {
        const char *name;
        enum lull_option_result result;
    } standard[] = {{"help", LULL_OPTION_WANTS_HELP},
                    {"usage", LULL_OPTION_WANTS_HELP},
                    {"version", LULL_OPTION_WANTS_VERSION}};

    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
        if (strlen(standard[i].name) == length && strncmp(word, standard[i].name, length) == 0) {
            reading->result = standard[i].result;
            return true;
        }
    return false;
}

/* at: the word; it is moved to the value where that is the next word. */
static int take_long(struct option_reading *reading, char ***at)
{
    const char *const word = **at + 2;
    const size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    struct option_slot *slot;

    if (take_standard(reading, word, length))
        return 0;
    slot = find_long(reading, word, length);
    if (slot == NULL)
        return -EINVAL;
    if (slot->row->type == LULL_OPTION_FLAG && value != NULL) {
        fprintf(stderr, "%s: --%s takes no value\n", reading->reader->name, slot->row->name);
        return refer_to_help(reading);
    }
    if (slot->row->type != LULL_OPTION_FLAG && value == NULL && !slot->row->is_bare_allowed) {
        if ((*at)[1] == NULL)
            return refuse_missing_value(reading, slot->row);
        value = *++*at;
    }
    return option_set(reading, slot, value);
}

static struct option_slot *find_letter(struct option_reading *reading, char letter)
{
    for (uint32_t i = 0; i < reading->count; i++)
        if (reading->slots[i].row->letter == letter)
            return &reading->slots[i];
    return NULL;
}

/* Flags may share one dash; the first letter that takes a value ends them, and the rest of the word
 * is that value. */
static int take_letters(struct option_reading *reading, char ***at)
{
    for (const char *letter = **at + 1; *letter != '\0'; letter++) {
        struct option_slot *const slot = find_letter(reading, *letter);
        int rc;

        if (slot == NULL && (*letter == 'h' || *letter == '?')) {
            reading->result = LULL_OPTION_WANTS_HELP;
            return 0;
        }
        if (slot == NULL && *letter == 'V') {
            reading->result = LULL_OPTION_WANTS_VERSION;
            return 0;
        }
        if (slot == NULL) {
            fprintf(stderr, "%s: unknown option -%c\n", reading->reader->name, *letter);
            return refer_to_help(reading);
        }
        if (slot->row->type != LULL_OPTION_FLAG) {
            if (letter[1] != '\0')
                return option_set(reading, slot, letter + 1);
            if ((*at)[1] == NULL)
                return refuse_missing_value(reading, slot->row);
            return option_set(reading, slot, *++*at);
        }
        rc = option_set(reading, slot, NULL);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Defaults go through the same parser as what people type, so that a default out of its range is
 * found by the first run. */
static int set_defaults(struct option_reading *reading)
{
    for (uint32_t i = 0; i < reading->count; i++) {
        struct option_slot *const slot = &reading->slots[i];
        const struct lull_option *const row = slot->row;
        const char *text = row->environment != NULL ? getenv(row->environment) : NULL;
        const bool is_variable = text != NULL && text[0] != '\0';
        struct lull_error err = {0};
        int rc;

        if (!is_variable)
            text = row->default_value;
        rc = text != NULL ? option_take_value(slot, text, &err) : 0;
        if (rc < 0)
            return refuse_value(reading, row, is_variable ? row->environment : NULL, text, rc,
                                &err);
    }
    return 0;
}

/* ---- what goes together -------------------------------------------------------------------- */

/* Is one of "this|that=value" on the command line? name_out: the first that is, or null. */
static bool find_given(const struct option_reading *reading, const char *list,
                       const char **name_out)
{
    *name_out = NULL;
    while (*list != '\0') {
        const size_t length = strcspn(list, "|");
        const size_t name = strcspn(list, "=|");

        for (uint32_t i = 0; i < reading->count; i++) {
            const struct option_slot *const slot = &reading->slots[i];

            if (slot->text == NULL || strlen(slot->row->name) != name ||
                strncmp(slot->row->name, list, name) != 0)
                continue;
            if (name == length || (strlen(slot->text) == length - name - 1 &&
                                   strncmp(slot->text, list + name + 1, length - name - 1) == 0)) {
                *name_out = slot->row->name;
                return true;
            }
        }
        list += length + (list[length] == '|');
    }
    return false;
}

/* Prints "this|that=value" as "--this or --that value". */
static void print_list(const char *list, FILE *out)
{
    fputs("--", out);
    for (; *list != '\0'; list++) {
        if (*list == '|')
            fputs(" or --", out);
        else
            fputc(*list == '=' ? ' ' : *list, out);
    }
}

/* Needs and exclusions are checked last, when it is known which options were given. */
static int check_together(const struct option_reading *reading)
{
    const char *const command = reading->reader->name;
    const char *other;

    for (uint32_t i = 0; i < reading->count; i++) {
        const struct lull_option *const row = reading->slots[i].row;

        if (reading->slots[i].text == NULL) {
            const char *const variable = row->environment != NULL ? getenv(row->environment) : NULL;

            if (!row->is_required || (variable != NULL && variable[0] != '\0'))
                continue;
            fprintf(stderr, "%s: give --%s %s\n", command, row->name, row->value);
            return refer_to_help(reading);
        }
        if (row->needs != NULL && !find_given(reading, row->needs, &other)) {
            fprintf(stderr, "%s: --%s has no effect alone; give ", command, row->name);
            print_list(row->needs, stderr);
            fputs(" as well, or leave it out\n", stderr);
            return refer_to_help(reading);
        }
        if (row->excludes != NULL && find_given(reading, row->excludes, &other)) {
            fprintf(stderr, "%s: --%s and --%s exclude each other; leave one out\n", command,
                    row->name, other);
            return refer_to_help(reading);
        }
    }
    return 0;
}

static int check_operands(const struct option_reading *reading,
                          const struct lull_operands *operands)
{
    const struct lull_operand_rules *const rules = reading->reader->rules;

    if (operands->count >= rules->least && (operands->command != NULL || !rules->needs_command))
        return 0;
    fprintf(stderr, "%s: %s\n", reading->reader->name, rules->missing);
    return refer_to_help(reading);
}

/* ---- the command line ---------------------------------------------------------------------- */

static int refuse_word(const struct option_reading *reading, const char *word)
{
    if (reading->reader->rules->most == 0)
        fprintf(stderr, "%s: %s: this command takes no arguments\n", reading->reader->name, word);
    else
        fprintf(stderr, "%s: %s: unexpected argument\n", reading->reader->name, word);
    return refer_to_help(reading);
}

/* Returns whether a word is the first of a command: behind "--" it is, once the words that are
 * needed are there. */
static bool begins_command(const struct lull_operands *operands,
                           const struct lull_operand_rules *rules, bool takes_options)
{
    return rules->takes_command && !takes_options && operands->count >= rules->least;
}

/* Words are moved to the front of argv; those that options have taken make the room. */
static int option_take_all(struct option_reading *reading, char **argv,
                           struct lull_operands *operands)
{
    const struct lull_operand_rules *const rules = reading->reader->rules;
    bool takes_options = true;

    operands->words = argv + 1;
    for (char **at = argv + 1; *at != NULL; at++) {
        int rc = 0;

        if (takes_options && strcmp(*at, "--") == 0)
            takes_options = false;
        else if (takes_options && strncmp(*at, "--", 2) == 0)
            rc = take_long(reading, &at);
        else if (takes_options && (*at)[0] == '-' && (*at)[1] != '\0')
            rc = take_letters(reading, &at);
        else if (operands->count < rules->most && !begins_command(operands, rules, takes_options))
            operands->words[operands->count++] = *at;
        else if (rules->takes_command) {
            operands->command = at;
            return 0;
        } else
            rc = refuse_word(reading, *at);
        if (rc < 0 || reading->result != LULL_OPTION_READ)
            return rc;
    }
    operands->words[operands->count] = NULL;
    return 0;
}

int lull_options_read(const struct lull_option_reader *reader, int argc, char **argv,
                      struct lull_operands *operands_out)
{
    struct option_reading reading = {.reader = reader};
    int rc;

    (void)argc; /* where assertions are off */
    assert(argc > 0 && argv[argc] == NULL);
    *operands_out = (struct lull_operands){0};
    option_collect(&reading);
    rc = set_defaults(&reading);
    if (rc < 0)
        return rc;
    rc = option_take_all(&reading, argv, operands_out);
    if (rc < 0 || reading.result != LULL_OPTION_READ)
        return rc < 0 ? rc : (int)reading.result;
    rc = check_operands(&reading, operands_out);
    if (rc < 0)
        return rc;
    return check_together(&reading);
}
