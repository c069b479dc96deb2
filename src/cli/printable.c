/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/printable.h"

#include <string.h>

/* Returns how many bytes a character has that begins with this byte; 0: no character begins with
 * it. */
static size_t length_of(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    if (lead < 0xe0)
        return 2;
    return lead < 0xf0 ? 3 : 4;
}

/* Returns the length in bytes of the character that begins here if it is well-formed (Unicode 3.9,
 * table 3-7) and no control character, else 0. */
static size_t character(const unsigned char *text)
{
    const unsigned char lead = text[0];
    const size_t length = length_of(lead);
    unsigned char least = 0x80; /* of the second byte */
    unsigned char most = 0xbf;

    if (lead == 0xe0)
        least = 0xa0;
    if (lead == 0xf0)
        least = 0x90;
    if (lead == 0xed)
        most = 0x9f;
    if (lead == 0xf4)
        most = 0x8f;
    if (length > 1 && (text[1] < least || text[1] > most))
        return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    /* U+0080 to U+009F are control characters too. */
    if (lead < 0x20 || lead == 0x7f || (lead == 0xc2 && text[1] < 0xa0))
        return 0;
    return length;
}

void lull_printable_write(const char *text, char *shown_out, size_t size)
{
    size_t used = 0;

    while (*text != '\0') {
        const size_t length = character((const unsigned char *)text);
        const size_t part = length > 0 ? length : 1;

        if (used + part >= size)
            break;
        memcpy(&shown_out[used], length > 0 ? text : "?", part);
        used += part;
        text += part;
    }
    shown_out[used] = '\0';
}

struct lull_printable lull_printable(const char *text)
{
    struct lull_printable shown;

    lull_printable_write(text, shown.text, sizeof(shown.text));
    return shown;
}
