/*
 * Command lines from tables. A row says everything about one option: its names, its value and
 * range, its field in the command's struct, its default and its help. The parser,
 * --help, the manual's list of options and completion are all made from the same rows.
 *
 * Understood are --name=value, --name value, --unambiguous-prefix, -n value, -nvalue, several flags
 * behind one dash, and -- before words that may begin with a dash. Options and words may be mixed,
 * unless a command line of another program's ends ours: that begins with the first word that is not
 * needed by the command itself, and is left unchanged.
 *
 * Wrong values are reported on standard error: which option, what it should be, what to do.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_OPTION_H
#define LULL_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum lull_option_type {
    LULL_OPTION_GROUP,  /* no option: a heading, which is its help */
    LULL_OPTION_FLAG,   /* bool */
    LULL_OPTION_WHOLE,  /* int64_t, uint64_t or uint32_t, from least to most */
    LULL_OPTION_NUMBER, /* double, from least to most */
    LULL_OPTION_TIME,   /* int64_t, ns; value, least and most are in its unit: H, MIN, S or MS */
    LULL_OPTION_RATIO,  /* double: 1% and 0.01 are the same */
    LULL_OPTION_TEXT,   /* const char *, of argv; one of the words, where the row has words */
    LULL_OPTION_WORD,   /* an enum: the word's index */
    LULL_OPTION_OWN,    /* as parse() says */
};

/* Completion offers this kind of thing for a value that has no list of words. */
enum lull_option_hint { LULL_OPTION_PLAIN, LULL_OPTION_FILE, LULL_OPTION_FOLDER };

/* A zero row ends a table. */
struct lull_option {
    const char *name;  /* without dashes */
    char letter;       /* 0: none */
    const char *value; /* placeholder of the value in the help; null: its words, or it is a flag */
    enum lull_option_type type;
    enum lull_option_hint hint;
    size_t offset; /* in the struct of the table; LULL_INTO fills in both */
    size_t size;
    size_t given;     /* LULL_GIVEN: one more than the offset of a bool that says it was there */
    double least;     /* of numbers and ratios */
    double most;      /* 0: no limit; a ratio is 1 at most in any case */
    bool is_slowdown; /* a ratio that is small, as slowdowns are: a bare 1 means 1%, and is refused
                       */
    bool is_open;     /* the least value is itself too small */
    bool is_required; /* here, or as the variable of the environment */
    bool is_bare_allowed;     /* the value may be left out, and otherwise follows a "=" */
    const char *const *words; /* ends with null */
    const char *(*word_at)(uint32_t index); /* instead: null at the end */
    /*
     * Takes the value to the row's place in the struct. Errors: -EINVAL or another code, the exit
     * status follows from it; err may be left unchanged, then the message is made of `expected`.
     */
    int (*parse)(const char *text, void *place, struct lull_error *err);
    const char *expected;      /* valid values, for error messages: "auto or watts" */
    const char *default_value; /* default, as a user would write it; it is set before parsing */
    const char *otherwise;     /* description of a default that cannot be written so */
    const char *environment;   /* a variable that takes the default's place */
    const char *needs;         /* options of which one must be there, "this|that" or "this=value" */
    const char *excludes;      /* options that do not go with it, "this|that" */
    const char *help;          /* one sentence */
    const char *more;          /* further sentences, for the manual */
};

#define LULL_INTO(type, field) .offset = offsetof(type, field), .size = sizeof(((type *)0)->field)
#define LULL_GIVEN(type, field) .given = 1 + offsetof(type, field)

/*
 * Rows: OBJECT is the struct of the table, FIELD where the value goes, TYPE the end of an enum
 * lull_option_type. More initializers may follow the help.
 */
#define LULL_GROUP(HELP)                                                                           \
    {                                                                                              \
        .type = LULL_OPTION_GROUP, .help = HELP                                                    \
    }
#define LULL_FLAG(NAME, OBJECT, FIELD, HELP, ...)                                                  \
    {                                                                                              \
        .name = NAME, .type = LULL_OPTION_FLAG, LULL_INTO(OBJECT, FIELD), .help = HELP,            \
        __VA_ARGS__                                                                                \
    }
#define LULL_VALUE(NAME, VALUE, TYPE, OBJECT, FIELD, HELP, ...)                                    \
    {                                                                                              \
        .name = NAME, .value = VALUE, .type = LULL_OPTION_##TYPE, LULL_INTO(OBJECT, FIELD),        \
        .help = HELP, __VA_ARGS__                                                                  \
    }
/* A value that PARSE takes to the whole struct of the table. */
#define LULL_OWN(NAME, VALUE, PARSE, HELP, ...)                                                    \
    {                                                                                              \
        .name = NAME, .value = VALUE, .type = LULL_OPTION_OWN, .parse = PARSE, .help = HELP,       \
        __VA_ARGS__                                                                                \
    }

/* Rows that are the same in all commands. */
#define LULL_JSON_ROW(OBJECT, FIELD)                                                               \
    LULL_FLAG("json", OBJECT, FIELD,                                                               \
              "Print one JSON document on standard output, and nothing else there.",               \
              .letter = 'j')
#define LULL_QUIET_ROW(OBJECT, FIELD)                                                              \
    LULL_FLAG("quiet", OBJECT, FIELD, "Print only warnings and errors: no progress, no tables.",   \
              .letter = 'q')
#define LULL_SEED_ROW(OBJECT, FIELD, HELP)                                                         \
    LULL_VALUE("seed", "N", WHOLE, OBJECT, FIELD, HELP, .default_value = "1")

/* A table, and where its struct lies within that of the command. */
struct lull_option_table {
    const struct lull_option *rows;
    size_t offset;
};

enum { LULL_OPTION_MAX_TABLES = 4, LULL_OPTION_MAX_ROWS = 128 };

/* The words that remain of a command line after its options were taken out. */
struct lull_operands {
    char **words; /* null-terminated only where there is no command */
    uint32_t count;
    char **command; /* null: none; else null-terminated, with at least one word */
};

/* Operands that a command takes. */
struct lull_operand_rules {
    uint32_t least;
    uint32_t most;      /* UINT32_MAX: any number */
    bool takes_command; /* then the command line of another program follows: behind "--", or behind
                         * the most words */
    bool needs_command;
    const char *missing; /* the message where words or the command are missing */
};

/* One command line's reading. */
struct lull_option_reader {
    const char *name; /* of the command, as messages begin with it: "lull run" */
    const struct lull_option_table *tables; /* LULL_OPTION_MAX_TABLES; the rest has no rows */
    const struct lull_operand_rules *rules;
    void *options;
};

enum lull_option_result { LULL_OPTION_READ, LULL_OPTION_WANTS_HELP, LULL_OPTION_WANTS_VERSION };

/*
 * Sets the defaults, then reads argv[1] on, whose order changes. Returns an enum
 * lull_option_result, or a negative code when a message has been printed: -EINVAL for usage.
 */
int lull_options_read(const struct lull_option_reader *reader, int argc, char **argv,
                      struct lull_operands *operands_out);

/* Prints the groups of options, in the order of the tables, for people. */
void lull_options_help(const struct lull_option_table *tables, FILE *out);

/*
 * Prints a line for each row for tools/options to read: option, the command, group, name, letter,
 * value, what completes it (words, @file or @folder), default, help, more; with tabs
 * between.
 */
void lull_options_list(const struct lull_option_table *tables, const char *command, FILE *out);

/* Refuses a bare number where a slowdown is wanted, and says how to write it: returns -EINVAL. */
int lull_option_refuse_bare(double value, struct lull_error *err);

/* The i-th word of a row's value; null behind the last, or where it has none. */
const char *lull_option_word(const struct lull_option *row, uint32_t index);

/* Prints text in lines of at most 79 columns; column: where the first begins, indent: the others.
 */
void lull_option_print_wrapped(const char *text, int column, int indent, FILE *out);

#endif
