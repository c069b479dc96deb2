/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/config_map.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

struct config_map_parsing {
    const char *name;
    char *at;
    size_t line;
    struct lull_columns *columns;
    struct lull_error *err;
};

static int config_map_refuse(const struct config_map_parsing *parsing, const char *what)
{
    return lull_error_set(parsing->err, LULL_E_FORMAT, "%s: line %zu: %s", parsing->name,
                          parsing->line, what);
}

/* ---- space -------------------------------------------------------------------------------- */

static void skip_comment(struct config_map_parsing *parsing)
{
    parsing->at += strcspn(parsing->at, "\n");
}

static void config_map_skip_space(struct config_map_parsing *parsing)
{
    for (;; parsing->at++) {
        if (*parsing->at == '#')
            skip_comment(parsing);
        if (*parsing->at == '\n')
            parsing->line++;
        else if (*parsing->at != ' ' && *parsing->at != '\t' && *parsing->at != '\r')
            return;
    }
}

/* ---- words -------------------------------------------------------------------------------- */

/* Takes a word in quotes and cuts it off at the closing one. NULL: it does not end in its line. */
static char *config_map_take_quoted(struct config_map_parsing *parsing)
{
    const char quote = *parsing->at;
    char *const word = ++parsing->at;

    while (*parsing->at != quote) {
        if (*parsing->at == '\\' && quote == '"' && parsing->at[1] != '\0')
            parsing->at++;
        if (*parsing->at == '\0' || *parsing->at == '\n')
            return NULL;
        parsing->at++;
    }
    *parsing->at++ = '\0';
    return word;
}

/*
 * Takes a plain word up to one of the characters of `ends`, without the space before that. Its end
 * is noted and not cut, because the caller still looks at the character there.
 */
static char *take_plain(struct config_map_parsing *parsing, const char *ends, char **end_out)
{
    char *const word = parsing->at;
    char *end;

    parsing->at += strcspn(parsing->at, ends);
    end = parsing->at;
    while (end > word && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *end_out = end;
    return word;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static int config_map_store(struct config_map_parsing *parsing, const char *name, const char *value,
                            size_t line)
{
    return lull_columns_note(parsing->columns, name, value, line, parsing->err);
}

/* ---- flow style, JSON --------------------------------------------------------------------- */

/* Passes over a list or map. */
static int skip_nested(struct config_map_parsing *parsing)
{
    char open[LULL_CONFIG_MAP_DEPTH];
    size_t depth = 0;

    do {
        config_map_skip_space(parsing);
        if (is_quote(*parsing->at)) {
            if (config_map_take_quoted(parsing) == NULL)
                return config_map_refuse(parsing, "a quoted text does not end on its line");
            continue;
        }
        if (*parsing->at == '\0')
            return config_map_refuse(parsing, "a list or map does not end");
        if (*parsing->at == '[' || *parsing->at == '{') {
            if (depth == sizeof(open))
                return config_map_refuse(parsing, "lists and maps are nested too deeply");
            open[depth++] = *parsing->at;
        } else if (*parsing->at == ']' || *parsing->at == '}') {
            assert(depth > 0); /* the first character opens the list or map */
            if ((*parsing->at == ']') != (open[depth - 1] == '['))
                return config_map_refuse(parsing, "a bracket is closed by one of the other kind");
            depth--;
        }
        parsing->at++;
    } while (depth > 0);
    return 0;
}

/* Takes a name and its colon. */
static int take_flow_name(struct config_map_parsing *parsing, char **name_out)
{
    char *end = NULL;
    char *const name = is_quote(*parsing->at) ? config_map_take_quoted(parsing)
                                              : take_plain(parsing, ":,{}[]\n", &end);

    if (name == NULL || name == end)
        return config_map_refuse(parsing, "there should be a name here");
    config_map_skip_space(parsing);
    if (*parsing->at != ':')
        return config_map_refuse(parsing, "a colon should follow the name");
    parsing->at++;
    if (end != NULL)
        *end = '\0';
    *name_out = name;
    return 0;
}

/* Takes a value and the comma or brace after it, which goes to *mark_out. */
static int take_flow_value(struct config_map_parsing *parsing, const char *name, char *mark_out)
{
    const size_t line = parsing->line;
    const char *value = NULL;
    char *end = NULL;
    int rc = 0;

    if (*parsing->at == '[' || *parsing->at == '{')
        rc = skip_nested(parsing);
    else if (is_quote(*parsing->at))
        rc = (value = config_map_take_quoted(parsing)) == NULL
                 ? config_map_refuse(parsing, "a quoted text does not end on its line")
                 : 0;
    else
        value = take_plain(parsing, ",{}[]#\n", &end);
    if (rc < 0)
        return rc;
    config_map_skip_space(parsing);
    *mark_out = *parsing->at;
    if (*mark_out != ',' && *mark_out != '}')
        return config_map_refuse(parsing, "a comma or closing brace should be here");
    parsing->at++;
    if (end != NULL)
        *end = '\0';
    return value != NULL ? config_map_store(parsing, name, value, line) : 0;
}

static int parse_flow(struct config_map_parsing *parsing)
{
    char mark = ',';

    parsing->at++;
    while (mark == ',') {
        char *name = NULL;
        int rc;

        config_map_skip_space(parsing);
        if (*parsing->at == '}') { /* the map is empty, or its last comma is followed by its end */
            parsing->at++;
            break;
        }
        rc = take_flow_name(parsing, &name);
        if (rc < 0)
            return rc;
        config_map_skip_space(parsing);
        rc = take_flow_value(parsing, name, &mark);
        if (rc < 0)
            return rc;
    }
    config_map_skip_space(parsing);
    return *parsing->at == '\0'
               ? 0
               : config_map_refuse(parsing, "there is more text after the closing brace");
}

/* ---- block style -------------------------------------------------------------------------- */

/* Takes the value after the colon of a line, which is empty where a list or map follows. */
static int take_block_value(struct config_map_parsing *parsing, const char *name)
{
    const size_t line = parsing->line;
    char *value;
    char *end = NULL;

    parsing->at += strspn(parsing->at, " \t");
    if (*parsing->at == '[' || *parsing->at == '{')
        return skip_nested(parsing);
    value =
        is_quote(*parsing->at) ? config_map_take_quoted(parsing) : take_plain(parsing, "#\n", &end);
    if (value == NULL)
        return config_map_refuse(parsing, "a quoted text does not end on its line");
    skip_comment(parsing);
    if (*parsing->at == '\n') {
        *parsing->at++ = '\0';
        parsing->line++;
    }
    if (end != NULL)
        *end = '\0';
    return value[0] != '\0' ? config_map_store(parsing, name, value, line) : 0;
}

/* Returns whether a line is indented or an item of a list: it belongs to a value that is
 * skipped. */
static bool is_nested(const struct config_map_parsing *parsing)
{
    const char *const at = parsing->at;

    return *at == ' ' || *at == '\t' || (*at == '-' && (at[1] == ' ' || at[1] == '\n'));
}

static bool is_mark(const struct config_map_parsing *parsing)
{
    return strncmp(parsing->at, "---", 3) == 0 || strncmp(parsing->at, "...", 3) == 0;
}

static int parse_block_line(struct config_map_parsing *parsing)
{
    char *end = NULL;
    char *name =
        is_quote(*parsing->at) ? config_map_take_quoted(parsing) : take_plain(parsing, ":\n", &end);

    if (name == NULL || name == end || *parsing->at != ':')
        return config_map_refuse(parsing, "this is not a name, a colon and a value");
    parsing->at++;
    if (end != NULL)
        *end = '\0';
    return take_block_value(parsing, name);
}

static int parse_block(struct config_map_parsing *parsing)
{
    int rc = 0;

    while (rc == 0 && *parsing->at != '\0') {
        if (*parsing->at == '\n' || *parsing->at == '\r') {
            parsing->line += *parsing->at++ == '\n';
        } else if (*parsing->at == '#' || is_mark(parsing) || is_nested(parsing)) {
            skip_comment(parsing);
        } else {
            rc = parse_block_line(parsing);
        }
    }
    return rc;
}

/* ---- both --------------------------------------------------------------------------------- */

int lull_config_map_parse(const char *name, char *text, const struct lull_column *known,
                          struct lull_columns *columns_out, struct lull_error *err)
{
    struct config_map_parsing parsing = {
        .name = name, .at = text, .line = 1, .columns = columns_out, .err = err};

    *columns_out = (struct lull_columns){.known = known, .name = name};
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        parsing.at += 3;
    config_map_skip_space(&parsing);
    if (is_mark(&parsing)) {
        skip_comment(&parsing);
        config_map_skip_space(&parsing);
    }
    return *parsing.at == '{' ? parse_flow(&parsing) : parse_block(&parsing);
}
