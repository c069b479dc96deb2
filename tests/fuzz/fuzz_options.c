/*
 * Command lines of lulld and of `lull run`: refused, or every value lies in the range of its row.
 * Each line of the input is a word; the first byte says whose command line it is.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

/* Thousands of refusals a second are not for a terminal. */
static FILE *quiet;
#undef stderr
#define stderr quiet

#include "base/option.c"

#include "cli/commands.h"
#include "fuzz.h"

#define main lulld_main
int lulld_main(int argc, char **argv);
#include "daemon/main.c"

enum { WORDS = 16, TEXT_BYTES = 512 };

static bool is_within(const struct lull_option *row, double value)
{
    return value >= row->least && (row->most == 0.0 || value <= row->most);
}

static double whole_at(const struct lull_option *row, const char *place)
{
    uint32_t narrow;
    int64_t wide;

    if (row->size == sizeof(narrow)) {
        memcpy(&narrow, place, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, place, sizeof(wide));
    return (double)wide;
}

static void check_row(const struct lull_option *row, const char *place)
{
    double number;
    uint32_t word;

    switch (row->type) {
    case LULL_OPTION_WHOLE:
        require(row->size == sizeof(uint64_t) || is_within(row, whole_at(row, place)));
        break;
    case LULL_OPTION_NUMBER:
    case LULL_OPTION_RATIO:
        memcpy(&number, place, sizeof(number));
        require(isfinite(number) && is_within(row, number));
        break;
    case LULL_OPTION_WORD:
        memcpy(&word, place, sizeof(word));
        require(lull_option_word(row, word) != NULL);
        break;
    default:
        break;
    }
}

/* Checks each option whose value has changed: it was given or has a default. All other options may
 * have any value. */
static void check_tables(const struct lull_option_table *tables, const char *before,
                         const char *options)
{
    for (int i = 0; i < LULL_OPTION_MAX_TABLES && tables[i].rows != NULL; i++)
        for (const struct lull_option *row = tables[i].rows; row->name != NULL || row->help != NULL;
             row++) {
            const size_t at = tables[i].offset + row->offset;

            if (memcmp(before + at, options + at, row->size) != 0)
                check_row(row, options + at);
        }
}

static int split(char *text, size_t size, char **words)
{
    int count = 0;

    words[count++] = "lull";
    for (size_t begin = 0; begin < size && count <= WORDS;) {
        const size_t length = strcspn(text + begin, "\n");

        text[begin + length] = '\0';
        words[count++] = text + begin;
        begin += length + 1;
    }
    words[count] = NULL;
    return count;
}

static void read_of_lulld(int argc, char **argv)
{
    static const struct lull_option_table tables[LULL_OPTION_MAX_TABLES] = {{rows, 0}};
    static const struct lull_operand_rules none;
    struct settings settings;
    struct settings before;
    const struct lull_option_reader reader = {"lulld", tables, &none, &settings};
    struct lull_operands operands = {0};

    memset(&settings, 0, sizeof(settings));
    lulld_prepare(&settings);
    before = settings;
    if (lull_options_read(&reader, argc, argv, &operands) == LULL_OPTION_READ) {
        require(settings.server.socket_mode <= 0777 && operands.count == 0);
        check_tables(tables, (const char *)&before, (const char *)&settings);
    }
}

static void read_of_run(int argc, char **argv)
{
    const struct lull_program_command *const command = &lull_run_command;
    char *const options = calloc(1, command->size);
    char *const before = calloc(1, command->size);
    const struct lull_option_reader reader = {"lull run", command->tables, &command->operands,
                                              options};
    struct lull_operands operands = {0};
    struct lull_error err = {0};

    require(options != NULL && before != NULL);
    command->prepare(options);
    memcpy(before, options, command->size);
    if (lull_options_read(&reader, argc, argv, &operands) == LULL_OPTION_READ) {
        require(operands.command != NULL && operands.command[0] != NULL);
        check_tables(command->tables, before, options);
        require(command->check(options, &operands, &err) == 0 || err.text[0] != '\0');
    }
    free(before);
    free(options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES + 1];
    char *words[WORDS + 2];
    int count;

    if (quiet == NULL)
        quiet = fopen("/dev/null", "we");
    if (quiet == NULL || size == 0 || size > TEXT_BYTES)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    count = split(text, size - 1, words);
    if ((data[0] & 1) != 0)
        read_of_run(count, words);
    else
        read_of_lulld(count, words);
    return 0;
}
