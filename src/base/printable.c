/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- UTF-8 --------------------------------------------------------------------------------- */

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Returns how many bytes a character has that begins with this byte; 0: no character begins with
 * it. */
static size_t printable_length_of(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    if (lead < 0xe0)
        return 2;
    return lead < 0xf0 ? 3 : 4;
}

/* Returns whether a byte may stand at this place, from 1 on, of a character that begins with lead
 * (Unicode 15, table 3-7). */
static bool is_continuation_byte(unsigned char lead, size_t place, unsigned char byte)
{
    unsigned char least = 0x80;
    unsigned char most = 0xbf;

    if (place == 1 && lead == 0xe0)
        least = 0xa0;
    if (place == 1 && lead == 0xf0)
        least = 0x90;
    if (place == 1 && lead == 0xed)
        most = 0x9f;
    if (place == 1 && lead == 0xf4)
        most = 0x8f;
    return byte >= least && byte <= most;
}

/* Returns the bytes of the well-formed character at the beginning of a text; 0: there is none. A
 * character that the end of the text cuts off is none, and sets *is_cut_out. */
static size_t find_character(const char *text, size_t left, bool *is_cut_out)
{
    const unsigned char lead = (unsigned char)text[0];
    const size_t length = printable_length_of(lead);

    *is_cut_out = false;
    for (size_t i = 1; i < length; i++) {
        if (i >= left) {
            *is_cut_out = true;
            return 0;
        }
        if (!is_continuation_byte(lead, i, (unsigned char)text[i]))
            return 0;
    }
    return length;
}

static uint32_t code_point(const char *text, size_t length)
{
    static const unsigned char bits_of_lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)text[0] & bits_of_lead[length];

    for (size_t i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

/* ---- forms --------------------------------------------------------------------------------- */

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Separators of lines, and characters with which a text is shown in another order than it has. */
static bool is_deceptive(uint32_t code)
{
    return code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

static const char *entity_of(uint32_t code)
{
    switch (code) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void printable_set_text(struct lull_printable_piece *piece, const char *text)
{
    piece->length = strlen(text);
    memcpy(piece->text, text, piece->length);
}

static bool is_unreserved(char byte)
{
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
           (byte != '\0' && strchr("-._~", byte) != NULL);
}

static struct lull_printable_piece printable_take_byte(char byte)
{
    struct lull_printable_piece piece = {.taken = 1, .length = 1, .text = {byte}};
    char encoded[4];

    if (is_unreserved(byte))
        return piece;
    snprintf(encoded, sizeof(encoded), "%%%02X", (unsigned)(unsigned char)byte);
    printable_set_text(&piece, encoded);
    return piece;
}

static bool is_escaped(enum lull_printable_form form, uint32_t code)
{
    if (form == LULL_PRINTABLE_LINES && (code == '\n' || code == '\t'))
        return false;
    return is_control(code) || is_deceptive(code);
}

static void apply_form(enum lull_printable_form form, uint32_t code,
                       struct lull_printable_piece *piece)
{
    char escape[LULL_PRINTABLE_PIECE];

    switch (form) {
    case LULL_PRINTABLE_VALID:
    case LULL_PRINTABLE_ADDRESS:
        return;
    case LULL_PRINTABLE_LINE:
    case LULL_PRINTABLE_LINES:
        if (!is_escaped(form, code))
            return;
        snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)(code & 0xffff));
        printable_set_text(piece, escape);
        return;
    case LULL_PRINTABLE_PAGE:
        if (entity_of(code) != NULL)
            printable_set_text(piece, entity_of(code));
        else if (is_deceptive(code) || (is_control(code) && code != '\n' && code != '\t'))
            printable_set_text(piece, replacement);
        return;
    }
}

struct lull_printable_piece lull_printable_take(enum lull_printable_form form, const char *text,
                                                size_t left)
{
    struct lull_printable_piece piece = {.taken = 1};
    bool is_cut;
    size_t length;

    if (form == LULL_PRINTABLE_ADDRESS)
        return printable_take_byte(text[0]);
    length = find_character(text, left, &is_cut);
    if (length == 0) {
        printable_set_text(&piece, replacement);
        return piece;
    }
    piece.taken = piece.length = length;
    memcpy(piece.text, text, length);
    apply_form(form, code_point(text, length), &piece);
    return piece;
}

size_t lull_printable_cut(const char *text, size_t length)
{
    const size_t most = length < 3 ? length : 3;
    bool is_cut;

    for (size_t back = most; back > 0; back--) {
        find_character(text + length - back, back, &is_cut);
        if (is_cut)
            return back;
    }
    return 0;
}

/* ---- texts --------------------------------------------------------------------------------- */

void lull_printable_print(enum lull_printable_form form, const char *text, FILE *file)
{
    char shown[512];
    size_t used = 0;

    for (size_t left = strlen(text); left > 0;) {
        const struct lull_printable_piece piece = lull_printable_take(form, text, left);

        memcpy(&shown[used], piece.text, piece.length);
        used += piece.length;
        text += piece.taken;
        left -= piece.taken;
        if (used + LULL_PRINTABLE_PIECE > sizeof(shown) || left == 0) {
            fwrite(shown, 1, used, file);
            used = 0;
        }
    }
}

char *lull_printable_copy(enum lull_printable_form form, const char *text, size_t length)
{
    char *copy;
    size_t size = 1;

    for (size_t at = 0; at < length;) {
        const struct lull_printable_piece piece = lull_printable_take(form, text + at, length - at);

        at += piece.taken;
        size += piece.length;
    }
    copy = malloc(size);
    if (copy == NULL)
        return NULL;
    size = 0;
    for (size_t at = 0; at < length;) {
        const struct lull_printable_piece piece = lull_printable_take(form, text + at, length - at);

        memcpy(copy + size, piece.text, piece.length);
        at += piece.taken;
        size += piece.length;
    }
    copy[size] = '\0';
    return copy;
}

void lull_printable_write(const char *text, char *shown_out, size_t size)
{
    size_t used = 0;

    for (size_t left = strlen(text); left > 0;) {
        const struct lull_printable_piece piece =
            lull_printable_take(LULL_PRINTABLE_LINE, text, left);

        if (used + piece.length >= size)
            break;
        memcpy(&shown_out[used], piece.text, piece.length);
        used += piece.length;
        text += piece.taken;
        left -= piece.taken;
    }
    shown_out[used] = '\0';
}

struct lull_printable lull_printable(const char *text)
{
    struct lull_printable shown;

    lull_printable_write(text, shown.text, sizeof(shown.text));
    return shown;
}
