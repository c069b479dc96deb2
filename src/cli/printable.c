/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/printable.h"

#include <stddef.h>
#include <string.h>

/* Bytes of the character that begins here, with the table of well-formed ones (Unicode 3.9);
 * 0: not one. */
static size_t character(const unsigned char *text)
{
    const unsigned char lead = text[0];
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;

    if (length == 0 || lead > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (text[i] < (i == 1 ? least : 0x80) || text[i] > (i == 1 ? most : 0xbf))
            return 0;
    /* 0x80 to 0x9f are control characters too. */
    return lead < 0x20 || lead == 0x7f || (lead == 0xc2 && text[1] < 0xa0) ? 0 : length;
}

struct lull_printable lull_printable(const char *text)
{
    struct lull_printable shown = {0};
    size_t used = 0;

    while (*text != '\0') {
        const size_t length = character((const unsigned char *)text);
        const size_t size = length > 0 ? length : 1;

        if (used + size >= sizeof(shown.text))
            break;
        memcpy(&shown.text[used], length > 0 ? text : "?", size);
        used += size;
        text += size;
    }
    return shown;
}
