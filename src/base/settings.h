/*
 * Settings files: KEY = VALUE below [KIND] or [KIND NAME], blank lines, and lines that begin with
 * #. lull.conf, lulld's policy and the file of lull budget have this form. The caller knows the
 * keys and words the errors. Threads: one per text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_SETTINGS_H
#define LULL_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_SETTINGS_LINE_BYTES = 4096 }; /* a rule of a policy names all GPUs of a node */

enum lull_settings_kind {
    LULL_SETTINGS_END,
    LULL_SETTINGS_SECTION,
    LULL_SETTINGS_KEY,
    LULL_SETTINGS_NOT_TEXT,   /* the line has LULL_SETTINGS_LINE_BYTES or more, or a byte 0 */
    LULL_SETTINGS_NO_SECTION, /* it begins with [, and has no ] at its end */
    LULL_SETTINGS_NO_KEY,     /* it has no = */
};

/* A text, and what its current line holds, without blanks at either end. */
struct lull_settings {
    const char *at; /* set these two to the text's begin and end, the rest to 0 */
    const char *end;
    uint32_t line; /* its number, from 1 */
    char *name;    /* the kind of the section, or the key; of a line that has neither, the line */
    char *value;   /* the name of the section, "": it has none; or the value */
    char buffer[LULL_SETTINGS_LINE_BYTES];
};

/* Reads the next line that is neither blank nor a comment. name and value may be changed, and last
 * until the next call. */
enum lull_settings_kind lull_settings_next(struct lull_settings *settings);

#endif
