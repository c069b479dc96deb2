/* SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest_word.h"
#include "base/option_value.h"

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

/* ---- messages ------------------------------------------------------------------------------ */

static int refer_to_help(const struct option_reading *reading)
{
    fprintf(stderr, "Try `%s --help`.\n", reading->reader->name);
    return -EINVAL;
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
        lull_option_print_expected(row, stderr);
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
        rc = lull_option_take_value(slot->row, text, slot->into + slot->row->offset, &err);
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
    char name[LULL_NEAREST_LONGEST + 1];
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
        lull_option_print_expected(row, stderr);
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
        rc = text != NULL
                 ? lull_option_take_value(slot->row, text, slot->into + slot->row->offset, &err)
                 : 0;
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

    (void)argc; /* unused if assertions are off */
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
