/*
 * Texts of any user: bytes, characters, characters that are cut off or that control a terminal,
 * from a fixed seed; and an oracle that decodes them by the C library's iconv.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TEST_ANY_TEXT_H
#define LULL_TEST_ANY_TEXT_H

#include <iconv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MAX_BYTES = 48 };

static uint64_t state = 20261129; /* the seed */

static inline uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

/* Draws a text without NUL of bytes, of characters, and of characters that are cut off. */
static inline size_t draw_text(char *text)
{
    static const char *const parts[] = {
        "a",
        "<b>",
        "&amp;",
        "\"",
        "'",
        "\\",
        "\n",
        "\t",
        "\r",
        "\x1b[31m",
        "\x7f",
        "\xc2\x9b",
        "\xc2\xa0",
        "\xe2\x80\xae",
        "\xe2\x81\xa6",
        "ä",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
        "€",
        "\xef\xbf\xbd",
        "\xc0\x80",
        "😀",
        "\xe2\x80\xa8",
    };
    const size_t wanted = draw(MAX_BYTES - 4);
    size_t size = 0;

    while (size < wanted) {
        const char *const part = parts[draw(sizeof(parts) / sizeof(parts[0]))];

        if (draw(2) == 0) {
            text[size++] = (char)(1 + draw(255));
        } else {
            memcpy(text + size, part, strlen(part));
            size += strlen(part);
        }
    }
    text[size] = '\0';
    return size;
}

/* ---- oracle -------------------------------------------------------------------------------- */

static iconv_t decoder;

static inline void begin_decoding(void)
{
    decoder = iconv_open("UTF-32LE", "UTF-8");
}

/* Decodes one character of exactly this many bytes. */
static inline bool decode(const char *text, size_t length, uint32_t *code_out)
{
    char *in = (char *)(uintptr_t)text;
    char *out = (char *)code_out;
    size_t in_left = length;
    size_t out_left = sizeof(*code_out);

    iconv(decoder, NULL, NULL, NULL, NULL);
    return iconv(decoder, &in, &in_left, &out, &out_left) == 0 && in_left == 0 && out_left == 0;
}

/* Decodes the first character; returns its bytes, or 1 and U+FFFD. */
static inline size_t next_code(const char *text, size_t left, uint32_t *code_out)
{
    for (size_t length = 1; length <= 4 && length <= left; length++)
        if (decode(text, length, code_out))
            return length;
    *code_out = 0xfffd;
    return 1;
}

static inline bool controls(uint32_t code)
{
    return code < 32 || (code >= 127 && code <= 159);
}

static inline bool deceives(uint32_t code)
{
    static const uint32_t codes[] = {0x61c,  0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
                                     0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* Returns whether a text is UTF-8 without characters that control or reorder a terminal, but for
 * line feeds and tabs where they are allowed. */
static inline bool is_harmless(const char *text, bool has_lines)
{
    for (size_t at = 0; text[at] != '\0';) {
        uint32_t code;
        const size_t size = next_code(text + at, strnlen(text + at, 4), &code);
        const bool is_blank = has_lines && (code == '\n' || code == '\t');

        if ((code == 0xfffd && size == 1) || (controls(code) && !is_blank) || deceives(code))
            return false;
        at += size;
    }
    return true;
}

#endif
