/*
 * Strict parsers of user input. Every function refuses trailing characters, empty text, overflow
 * and not-a-number, and leaves its output unchanged on failure. Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_TEXT_H
#define LULL_BASE_TEXT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* Parses a decimal integer in [min, max]. -EINVAL: it is not such a number. */
int lull_text_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out);

/* Parses the digits at *at as a number below limit, and moves *at past them. Errors: -EINVAL no
 * digits; -ERANGE limit or more, which leaves *at where it is. */
static inline int lull_text_take_digits(const char **at, uint32_t limit, uint32_t *number_out)
{
    const char *c = *at;
    uint64_t number = 0;

    if (*c < '0' || *c > '9')
        return -EINVAL;
    for (; *c >= '0' && *c <= '9'; c++) {
        number = 10 * number + (uint64_t)(*c - '0');
        if (number >= limit)
            return -ERANGE;
    }
    *at = c;
    *number_out = (uint32_t)number;
    return 0;
}

/* Parses a finite decimal number at the start of text, and stores where the rest begins. -EINVAL:
 * the text starts with none. */
int lull_text_parse_prefix(const char *text, double *value_out, const char **end_out);

/* Parses a finite decimal number. -EINVAL: the text is not one. */
int lull_text_parse_number(const char *text, double *value_out);

/* The meaning of a comma in a printed number if the number alone does not decide it. */
enum lull_text_comma {
    LULL_TEXT_COMMA_GROUPS,    /* 1,234 is 1234 */
    LULL_TEXT_COMMA_DECIMAL,   /* 1,234 is 1.234 */
    LULL_TEXT_COMMA_AMBIGUOUS, /* 1,234 is refused */
};

enum { LULL_TEXT_NUMBER_BYTES = 64 };

/*
 * Rewrites a number as people and programs print it into the form that the functions here parse. It
 * has no leading +, a digit before the point, a point for a decimal comma, and no separators
 * between groups of three digits (comma, point, no-break blank, apostrophe). If both a comma and a
 * point occur, the last of them is the decimal one. The rest of the text, such as an exponent or a
 * unit, is copied. Errors, which leave `plain` unchanged: -EINVAL the groups do not have three
 * digits, or the number does not start with a digit; -EILSEQ it reads as two different numbers
 * (LULL_TEXT_COMMA_AMBIGUOUS); -ERANGE it does not fit.
 */
int lull_text_plain_number(const char *text, enum lull_text_comma comma,
                           char plain[LULL_TEXT_NUMBER_BYTES]);

/* Parses a finite decimal number from least to most. -EINVAL: the text is not one. */
int lull_text_parse_between(const char *text, double least, double most, double *value_out);

/* Parses a number of at least `least`, or "inf" as INFINITY. -EINVAL: it is neither. */
int lull_text_parse_at_least(const char *text, double least, double *value_out);

/* Parses a ratio: "1%" and "0.01" both give 0.01. -EINVAL: it is not a number, or not in [0, 1]. */
int lull_text_parse_ratio(const char *text, double *ratio_out);

/*
 * Returns true for a bare number of 0.5 or more, and stores it in *value_out. If a small ratio is
 * expected (a permitted slowdown), a user who writes 1 means 1%, and would get 100%.
 */
bool lull_text_is_bare_percent(const char *text, double *value_out);

/* Returns whether a text represents a missing value: empty, or a word such as NA, N/A, [N/A], NaN,
 * null, None, Unknown, [Not Supported], \N, - or ?, in any case. */
bool lull_text_is_missing(const char *text);

/* The blanks that may surround words in files. */
#define LULL_TEXT_BLANKS " \t\r"

/* Removes the blanks at the end of a text. Returns the address of its first character that is not
 * blank. */
char *lull_text_trim(char *text);

/* The 64-bit FNV-1a hash of a text. It is the same on all machines and in all versions, so it may
 * be stored. */
uint64_t lull_text_hash(const char *text);

#endif
