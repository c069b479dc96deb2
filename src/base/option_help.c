/* Prints tables of options: for users by --help, for tools/options line by line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/option.h"

#include <string.h>

enum { HELP_COLUMN = 28, LINE_COLUMNS = 79 };

/* Writes the word that represents the value in help: RATIO, or a|b|c; a flag has none. */
static void option_help_write_value(const struct lull_option *row, char *text, size_t size)
{
    size_t used = 0;
    const char *word;

    snprintf(text, size, "%s", row->value != NULL ? row->value : "");
    for (uint32_t i = 0; row->value == NULL && (word = lull_option_word(row, i)) != NULL; i++)
        used += (size_t)snprintf(text + used, used < size ? size - used : 0, "%s%s",
                                 i > 0 ? "|" : "", word);
}

void lull_option_print_wrapped(const char *text, int column, int indent, FILE *out)
{
    while (*text != '\0') {
        const int length = (int)strcspn(text, " \n");

        if (column > indent && column + 1 + length > LINE_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, (size_t)length, out);
        column += length;
        text += length;
        if (*text == '\n') {
            fprintf(out, "\n%*s", text[1] == '\n' || text[1] == '\0' ? 0 : indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
}

/* "1%", "$LULL_RUNTIME_DIR or /run/lull"; nothing where there is none. */
static void write_default(const struct lull_option *row, char *text, size_t size)
{
    const char *const default_value =
        row->default_value != NULL ? row->default_value : row->otherwise;

    text[0] = '\0';
    if (row->environment != NULL && default_value != NULL)
        snprintf(text, size, "$%s or %s", row->environment, default_value);
    else if (row->environment != NULL)
        snprintf(text, size, "$%s", row->environment);
    else if (default_value != NULL)
        snprintf(text, size, "%s", default_value);
}

static void option_help_print_row(const struct lull_option *row, FILE *out)
{
    char default_value[160];
    char text[1024];
    char value[160];
    int column;

    option_help_write_value(row, value, sizeof(value));
    if (row->letter != 0)
        column = fprintf(out, "  -%c, --%s", row->letter, row->name);
    else
        column = fprintf(out, "      --%s", row->name);
    if (value[0] != '\0')
        column += fprintf(out, row->is_bare_allowed ? "[=%s]" : "=%s", value);
    if (column > HELP_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    write_default(row, default_value, sizeof(default_value));
    snprintf(text, sizeof(text), "%s%s%s%s", row->help,
             default_value[0] != '\0' ? " Default: " : "", default_value,
             default_value[0] != '\0' ? "." : "");
    lull_option_print_wrapped(text, HELP_COLUMN, HELP_COLUMN, out);
    fputc('\n', out);
}

void lull_options_help(const struct lull_option_table *tables, FILE *out)
{
    const struct lull_option *group = NULL;
    bool is_first = true;

    for (uint32_t i = 0; i < LULL_OPTION_MAX_TABLES && tables[i].rows != NULL; i++)
        for (const struct lull_option *row = tables[i].rows; row->help != NULL; row++) {
            if (row->type == LULL_OPTION_GROUP) {
                group = row; /* printed with its first option */
                continue;
            }
            if (group != NULL || is_first)
                fprintf(out, "\n%s:\n", group != NULL ? group->help : "Options");
            group = NULL;
            is_first = false;
            option_help_print_row(row, out);
        }
    fprintf(out, "\n  -h, --help                Print this help.\n"
                 "  -V, --version             Print the version.\n");
}

static void list_completion(const struct lull_option *row, FILE *out)
{
    static const char *const hints[] = {"", "@file", "@folder"};
    const char *word = lull_option_word(row, 0);

    if (word == NULL)
        fputs(hints[row->hint], out);
    for (uint32_t i = 1; word != NULL; i++) {
        fprintf(out, "%s%s", i > 1 ? " " : "", word);
        word = lull_option_word(row, i);
    }
}

void lull_options_list(const struct lull_option_table *tables, const char *command, FILE *out)
{
    const char *group = "";
    char default_value[160];
    char value[160];

    for (uint32_t i = 0; i < LULL_OPTION_MAX_TABLES && tables[i].rows != NULL; i++)
        for (const struct lull_option *row = tables[i].rows; row->help != NULL; row++) {
            if (row->type == LULL_OPTION_GROUP) {
                group = row->help;
                continue;
            }
            option_help_write_value(row, value, sizeof(value));
            fprintf(out, "option\t%s\t%s\t%s\t%.1s\t%s\t", command, group, row->name, &row->letter,
                    value);
            list_completion(row, out);
            write_default(row, default_value, sizeof(default_value));
            fprintf(out, "\t%s\t%s\t%s\n", default_value, row->help,
                    row->more != NULL ? row->more : "");
        }
}
