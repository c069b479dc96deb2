/*
 * Makes any bytes safe to print. Job names, commands, arguments, sections and file names come from
 * users: they may not be UTF-8, or may contain sequences that control a terminal or a page.
 *
 * All forms are well-formed UTF-8: each byte outside a well-formed character becomes U+FFFD. The
 * functions fail only if an allocation fails. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_PRINTABLE_H
#define LULL_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdio.h>

enum lull_printable_form {
    /* For JSON and labels of metrics, whose writers escape control characters. */
    LULL_PRINTABLE_VALID,
    /* One line of a terminal or a log. Control characters, and characters that reverse the
     * direction of text, become \u001b and similar ones, which JSON strings read as the character.
     */
    LULL_PRINTABLE_LINE,
    /* Several lines of a terminal: as LINE, except that line feeds and tabs stay. */
    LULL_PRINTABLE_LINES,
    /* HTML, SVG and XML, also in attributes: < > & " ' become entities. Control characters, which
     * XML does not allow, and characters that reorder a text become U+FFFD; line feeds and tabs
     * stay. */
    LULL_PRINTABLE_PAGE,
    /* A segment of a URL's path (RFC 3986): all bytes except letters, digits and -._~ are
       percent-encoded. This form also keeps bytes that are not UTF-8. */
    LULL_PRINTABLE_ADDRESS,
};

enum { LULL_PRINTABLE_PIECE = 8 };

/* One character of a text in a form. */
struct lull_printable_piece {
    size_t taken;  /* bytes of the text, at least 1 */
    size_t length; /* bytes of `text` that represent it */
    char text[LULL_PRINTABLE_PIECE];
};

/* Converts the first character of a text of `left` bytes, at least 1. */
struct lull_printable_piece lull_printable_take(enum lull_printable_form form, const char *text,
                                                size_t left);

/* Returns the number of bytes, 0 to 3, at the end of a text of this length that start a character
 * which following bytes may complete. */
size_t lull_printable_cut(const char *text, size_t length);

/* Writes a text in a form to a file. Errors are those of the file. */
void lull_printable_print(enum lull_printable_form form, const char *text, FILE *file);

/* Returns a text of `length` bytes in a form, with a NUL behind it, for free(). NULL: out of
 * memory. */
char *lull_printable_copy(enum lull_printable_form form, const char *text, size_t length);

/* Writes a text as one line into size bytes, at least 1. A text that is too long is cut between two
 * characters. */
void lull_printable_write(const char *text, char *shown_out, size_t size);

struct lull_printable {
    char text[64];
};

/* Returns a name as lull_printable_write() does. */
struct lull_printable lull_printable(const char *text);

#endif
