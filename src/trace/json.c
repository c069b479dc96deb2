/*
 * The text passes through one buffer. A token that lies within it is not copied; one that crosses
 * its end, or holds an escape, is gathered in the scratch buffer byte by byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/json.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A lenient stream keeps so much of the text before the buffer's next part, to go back to. */
enum { BUFFER_BYTES = 1 << 19, KEPT_BYTES = 1 << 16 };

enum expectation {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* of the array that just began */
    EXPECT_KEY,
    EXPECT_KEY_OR_END, /* of the object that just began */
    EXPECT_MORE,       /* a comma or the end of what is open */
    EXPECT_NOTHING,
};

struct lull_json {
    const char *name;
    lull_json_fill fill;
    void *context;
    struct lull_error error; /* of fill; code 0: none */
    bool is_over;            /* nothing follows end */
    bool is_lenient;
    enum lull_json_fault fault;

    const char *at; /* next byte; up to end */
    const char *end;
    int64_t offset; /* of the buffer's first byte in the text */
    int64_t lines;  /* ended before it */

    enum expectation expect;
    uint32_t depth;
    char closing[LULL_JSON_MAX_DEPTH]; /* of what is open, the innermost last */

    size_t held; /* bytes in scratch */
    char scratch[LULL_JSON_MAX_TEXT];
    char buffer[BUFFER_BYTES];
};

struct lull_json *lull_json_create(const char *name, lull_json_fill fill, void *context)
{
    struct lull_json *const json = malloc(sizeof(*json));

    if (json == NULL)
        return NULL;
    memset(json, 0, offsetof(struct lull_json, scratch));
    json->name = name;
    json->fill = fill;
    json->context = context;
    json->at = json->end = json->buffer;
    return json;
}

void lull_json_be_lenient(struct lull_json *json)
{
    json->is_lenient = true;
}

void lull_json_destroy(struct lull_json *json)
{
    free(json);
}

enum lull_json_fault lull_json_fault(const struct lull_json *json)
{
    return json->fault;
}

uint32_t lull_json_depth(const struct lull_json *json)
{
    return json->depth;
}

int64_t lull_json_offset(const struct lull_json *json)
{
    return json->offset + (json->at - json->buffer);
}

/* ---- errors ---- */

static int64_t count_lines(const char *from, const char *to)
{
    int64_t lines = 0;

    while (from < to && (from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        lines++;
        from++;
    }
    return lines;
}

static int64_t line_of(const struct lull_json *json)
{
    return json->lines + count_lines(json->buffer, json->at) + 1;
}

/* For messages: what was expected. */
static const char *const wanted[] = {
    [EXPECT_VALUE] = "a value",
    [EXPECT_VALUE_OR_END] = "a value or ]",
    [EXPECT_KEY] = "a key in quotes",
    [EXPECT_KEY_OR_END] = "a key in quotes or }",
    [EXPECT_MORE] = "a comma or the end of what is open",
    [EXPECT_NOTHING] = "nothing more",
};

/* Refuses the byte at json->at, which is not what should stand there. */
static int json_refuse(struct lull_json *json, const char *instead, struct lull_error *err)
{
    const unsigned char byte = (unsigned char)*json->at;
    const int64_t offset = lull_json_offset(json);
    const int64_t line = line_of(json);

    json->fault = LULL_JSON_MALFORMED;
    if (json->expect == EXPECT_NOTHING && (byte == '{' || byte == '['))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: byte %" PRId64 ", line %" PRId64
                              ": a second document follows the first; were files concatenated, or "
                              "did several ranks write this file?",
                              json->name, offset, line);
    if (isprint(byte))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: byte %" PRId64 ", line %" PRId64 ": expected %s, found '%c'",
                              json->name, offset, line, instead, byte);
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: byte %" PRId64 ", line %" PRId64 ": expected %s, found byte 0x%02x",
                          json->name, offset, line, instead, byte);
}

/* Reports that the text ended, or that reading it failed, where something should follow. */
static int report_end(struct lull_json *json, struct lull_error *err)
{
    if (json->error.code != 0) {
        if (err != NULL)
            *err = json->error;
        return json->error.code;
    }
    json->fault = LULL_JSON_CUT;
    if (lull_json_offset(json) == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: byte 0: the file is empty", json->name);
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: truncated: it ends at byte %" PRId64 ", line %" PRId64
                          ", before its JSON does; was the job stopped while writing it?",
                          json->name, lull_json_offset(json), line_of(json));
}

/* ---- bytes ---- */

/* Makes the next part of the text available; call when at == end. False: there is none. */
static bool json_refill(struct lull_json *json)
{
    const size_t held = (size_t)(json->end - json->buffer);
    size_t kept = 0;
    ssize_t got;

    if (json->is_over)
        return false;
    if (json->is_lenient)
        kept = held < KEPT_BYTES ? held : KEPT_BYTES;
    json->lines += count_lines(json->buffer, json->end - kept);
    json->offset += (int64_t)(held - kept);
    memmove(json->buffer, json->end - kept, kept);
    json->at = json->end = json->buffer + kept;
    got = json->fill(json->context, json->buffer + kept, BUFFER_BYTES - kept, &json->error);
    if (got <= 0) {
        json->error.code = (int)got;
        json->is_over = true;
        return false;
    }
    json->end += got;
    return true;
}

static bool has_byte(struct lull_json *json)
{
    return json->at < json->end || json_refill(json);
}

/* Finds the next byte that is no white space, and leaves it in place. Returns -1 if there is none.
 * */
static inline int json_peek(struct lull_json *json)
{
    do {
        const char *at = json->at;

        while (at < json->end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
            at++;
        json->at = at;
        if (at < json->end)
            return (unsigned char)*at;
    } while (json_refill(json));
    return -1;
}

static void json_skip_byte_order_mark(struct lull_json *json)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t length = sizeof(mark) - 1;

    if (has_byte(json) && (size_t)(json->end - json->at) >= length &&
        memcmp(json->at, mark, length) == 0)
        json->at += length;
}

static void json_gather(struct lull_json *json, char byte)
{
    if (json->held < sizeof(json->scratch))
        json->scratch[json->held++] = byte;
}

static struct lull_json_text json_gathered_text(const struct lull_json *json)
{
    return (struct lull_json_text){json->scratch, json->held};
}

/* ---- strings ---- */

/* Gathers a UTF-16 code unit as UTF-8. Halves of pairs, which UTF-8 does not have, become question
 * marks. */
static void gather_unit(struct lull_json *json, unsigned unit)
{
    if (unit >= 0xd800 && unit <= 0xdfff) {
        json_gather(json, '?');
    } else if (unit < 0x80) {
        json_gather(json, (char)unit);
    } else if (unit < 0x800) {
        json_gather(json, (char)(0xc0 | unit >> 6));
        json_gather(json, (char)(0x80 | (unit & 0x3f)));
    } else {
        json_gather(json, (char)(0xe0 | unit >> 12));
        json_gather(json, (char)(0x80 | (unit >> 6 & 0x3f)));
        json_gather(json, (char)(0x80 | (unit & 0x3f)));
    }
}

/* Gathers what stands behind \u: four hexadecimal digits, or, if there are fewer, the text as it
 * stands. */
static void gather_unicode(struct lull_json *json)
{
    char digits[5] = "";
    unsigned count = 0;

    while (count < 4 && has_byte(json) && isxdigit((unsigned char)*json->at))
        digits[count++] = *json->at++;
    if (count == 4) {
        gather_unit(json, (unsigned)strtoul(digits, NULL, 16));
        return;
    }
    json_gather(json, '\\');
    json_gather(json, 'u');
    for (unsigned i = 0; i < count; i++)
        json_gather(json, digits[i]);
}

/* Gathers what stands behind a backslash. Returns false if the text ends here. */
static bool gather_escape(struct lull_json *json)
{
    static const char known[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char *place;
    char c;

    if (!has_byte(json))
        return false;
    c = *json->at++;
    if (c == 'u') {
        gather_unicode(json);
        return true;
    }
    place = c != '\0' ? strchr(known, c) : NULL;
    if (place == NULL)
        json_gather(json, '\\');
    json_gather(json, place != NULL ? meant[place - known] : c);
    return true;
}

static int gather_string(struct lull_json *json, struct lull_json_text *text_out,
                         struct lull_error *err)
{
    json->held = 0;
    while (has_byte(json)) {
        const char c = *json->at++;

        if (c == '"') {
            *text_out = json_gathered_text(json);
            return 0;
        }
        if (c != '\\')
            json_gather(json, c);
        else if (!gather_escape(json))
            break;
    }
    return report_end(json, err);
}

/* True if one of the eight bytes is the one that pattern repeats (Mycroft 1987). */
static inline bool holds_byte(uint64_t bytes, uint64_t pattern)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t zero_where_equal = bytes ^ pattern;

    return ((zero_where_equal - ones) & ~zero_where_equal & (ones << 7)) != 0;
}

/* Returns the place at which the string ends or an escape begins, else the end of the buffer. */
static inline const char *find_special(const char *at, const char *end)
{
    const uint64_t quotes = UINT64_C(0x2222222222222222);
    const uint64_t backslashes = UINT64_C(0x5c5c5c5c5c5c5c5c);
    uint64_t bytes;

    for (; end - at >= (ptrdiff_t)sizeof(bytes); at += sizeof(bytes)) {
        memcpy(&bytes, at, sizeof(bytes));
        if (holds_byte(bytes, quotes) || holds_byte(bytes, backslashes))
            break;
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* json->at is behind the opening quote. */
static inline int json_read_string(struct lull_json *json, struct lull_json_text *text_out,
                                   struct lull_error *err)
{
    const char *const special = find_special(json->at, json->end);
    const size_t length = (size_t)(special - json->at);

    if (special == json->end || *special != '"')
        return gather_string(json, text_out, err);
    text_out->bytes = json->at;
    text_out->length = length < LULL_JSON_MAX_TEXT ? length : LULL_JSON_MAX_TEXT;
    json->at = special + 1;
    return 0;
}

/* ---- numbers and words ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_scalar_byte(const struct lull_json *json, char c)
{
    if (is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
        c == '+')
        return true;
    return json->is_lenient && (c == '(' || c == ')' || c == '_' || c == '#' || c == '*');
}

static size_t skip_digits(const char *bytes, size_t length, size_t i)
{
    while (i < length && is_digit(bytes[i]))
        i++;
    return i;
}

static bool json_starts_number(const char *bytes, size_t length)
{
    size_t i = length > 0 && bytes[0] == '-';
    size_t digits = skip_digits(bytes, length, i);

    if (digits == i)
        return false;
    i = digits;
    if (i < length && bytes[i] == '.') {
        digits = skip_digits(bytes, length, i + 1);
        if (digits == i + 1)
            return false;
        i = digits;
    }
    if (i < length && (bytes[i] == 'e' || bytes[i] == 'E')) {
        i++;
        if (i < length && (bytes[i] == '+' || bytes[i] == '-'))
            i++;
        digits = skip_digits(bytes, length, i);
        if (digits == i)
            return false;
        i = digits;
    }
    return i == length;
}

static bool json_is_word(const char *bytes, size_t length)
{
    static const char *const words[] = {"true", "false",     "null", "NaN",  "Infinity", "nan",
                                        "inf",  "-Infinity", "-inf", "-nan", "-NaN"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == length && memcmp(words[i], bytes, length) == 0)
            return true;
    return false;
}

static struct lull_json_text gather_scalar(struct lull_json *json)
{
    json->held = 0;
    while (has_byte(json) && is_scalar_byte(json, *json->at))
        json_gather(json, *json->at++);
    return json_gathered_text(json);
}

static int read_scalar(struct lull_json *json, struct lull_json_text *text_out,
                       struct lull_error *err)
{
    const char *end = json->at;
    struct lull_json_text text;

    while (end < json->end && is_digit(*end))
        end++;
    if (end > json->at && end < json->end && !is_scalar_byte(json, *end)) { /* most numbers */
        *text_out = (struct lull_json_text){json->at, (size_t)(end - json->at)};
        json->at = end;
        return LULL_JSON_SCALAR;
    }
    while (end < json->end && is_scalar_byte(json, *end))
        end++;
    if (end < json->end) {
        text = (struct lull_json_text){json->at, (size_t)(end - json->at)};
        if (text.length == 0)
            return json_refuse(json, wanted[json->expect], err);
        json->at = end;
    } else {
        text = gather_scalar(json);
    }
    if (!json_starts_number(text.bytes, text.length) && !json_is_word(text.bytes, text.length) &&
        !(json->is_lenient && json->depth > 0 && text.length > 0)) {
        if (json->depth > 0 && !has_byte(json)) /* cut within a word or number */
            return report_end(json, err);
        json->fault = LULL_JSON_MALFORMED;
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: before byte %" PRId64 ", line %" PRId64
                              ": '%.*s' is not a number, true, false or null",
                              json->name, lull_json_offset(json), line_of(json),
                              text.length < 20 ? (int)text.length : 20, text.bytes);
    }
    *text_out = text;
    return LULL_JSON_SCALAR;
}

/* ---- tokens ---- */

/* Sets what may come after a value, or after the end of an object or array. */
static void expect_more(struct lull_json *json)
{
    json->expect = json->depth > 0 ? EXPECT_MORE : EXPECT_NOTHING;
}

static int open_container(struct lull_json *json, char closing, struct lull_error *err)
{
    if (json->depth == LULL_JSON_MAX_DEPTH)
        return json_refuse(json, "at most 512 levels", err);
    json->at++;
    json->closing[json->depth++] = closing;
    json->expect = closing == '}' ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return closing == '}' ? LULL_JSON_OBJECT_BEGIN : LULL_JSON_ARRAY_BEGIN;
}

static int close_container(struct lull_json *json)
{
    const char closing = json->closing[--json->depth];

    json->at++;
    expect_more(json);
    return closing == '}' ? LULL_JSON_OBJECT_END : LULL_JSON_ARRAY_END;
}

/* The colon may lie in the next part of the text: then the key has to be put by. */
static int json_read_key(struct lull_json *json, struct lull_json_text *text_out,
                         struct lull_error *err)
{
    int result;

    json->at++;
    result = json_read_string(json, text_out, err);
    if (result < 0)
        return result;
    if (json->at == json->end || *json->at != ':') {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): json_read_string() wrote it. */
        memmove(json->scratch, text_out->bytes, text_out->length);
        text_out->bytes = json->scratch;
        result = json_peek(json);
        if (result < 0)
            return report_end(json, err);
        if (result != ':')
            return json_refuse(json, "a colon", err);
    }
    json->at++;
    json->expect = EXPECT_VALUE;
    return LULL_JSON_KEY;
}

static int json_read_value(struct lull_json *json, int first, struct lull_json_text *text_out,
                           struct lull_error *err)
{
    int result;

    if (first == '{' || first == '[')
        return open_container(json, first == '{' ? '}' : ']', err);
    if (first != '"') {
        result = read_scalar(json, text_out, err);
    } else {
        json->at++;
        result = json_read_string(json, text_out, err);
        if (result == 0)
            result = LULL_JSON_STRING;
    }
    if (result >= 0)
        expect_more(json);
    return result;
}

/* A lenient stream also accepts an end there. */
static enum expectation expected_behind_comma(const struct lull_json *json)
{
    const bool is_object = json->closing[json->depth - 1] == '}';

    if (json->is_lenient)
        return is_object ? EXPECT_KEY_OR_END : EXPECT_VALUE_OR_END;
    return is_object ? EXPECT_KEY : EXPECT_VALUE;
}

/* Behind a key comes a value; everywhere else the text ends between two values. */
static int end_text(struct lull_json *json, struct lull_error *err)
{
    const bool is_open = json->depth > 0 && json->expect != EXPECT_VALUE;
    int result;

    if (json->expect == EXPECT_NOTHING && json->error.code == 0)
        return LULL_JSON_END;
    result = report_end(json, err);
    if (is_open && json->fault == LULL_JSON_CUT)
        json->fault = LULL_JSON_OPEN;
    return result;
}

/* The grammar is a small state machine: its only state is what may come next, and which objects and
 * arrays are open. */
int lull_json_next(struct lull_json *json, struct lull_json_text *text_out, struct lull_error *err)
{
    int c;

    if (json->offset == 0 && json->end == json->buffer)
        json_skip_byte_order_mark(json);
    c = json_peek(json);
    if (c >= 0 && json->expect == EXPECT_MORE && c == ',') {
        json->at++;
        json->expect = expected_behind_comma(json);
        c = json_peek(json);
    }
    if (c >= 0 && json->depth > 0 && c == json->closing[json->depth - 1] &&
        json->expect != EXPECT_VALUE && json->expect != EXPECT_KEY) {
        return close_container(json);
    }
    if (c < 0)
        return end_text(json, err);
    switch (json->expect) {
    case EXPECT_VALUE:
    case EXPECT_VALUE_OR_END:
        return json_read_value(json, c, text_out, err);
    case EXPECT_KEY:
    case EXPECT_KEY_OR_END:
        if (c == '"')
            return json_read_key(json, text_out, err);
        break;
    default:
        break;
    }
    return json_refuse(json, wanted[json->expect], err);
}

/* Reads tokens until no more than depth levels are open. */
static int read_to(struct lull_json *json, uint32_t depth, struct lull_error *err)
{
    struct lull_json_text ignored;

    do {
        const int token = lull_json_next(json, &ignored, err);

        if (token < 0)
            return token;
        assert(token != LULL_JSON_END);
    } while (json->depth > depth);
    return 0;
}

int lull_json_skip(struct lull_json *json, struct lull_error *err)
{
    return read_to(json, json->depth, err);
}

int lull_json_leave(struct lull_json *json, struct lull_error *err)
{
    return json->depth > 0 ? read_to(json, json->depth - 1, err) : 0;
}

/* ---- continuing after faults ---- */

enum { KEY_BYTES = 32 };

/* State of the search through the text. */
struct resumption {
    int64_t object;       /* offset of a brace that may begin the next object; negative: none */
    bool has_quote;       /* a key behind that brace has started */
    bool is_first;        /* nothing but white space since the line began */
    char last;            /* byte that is no white space */
    char text[KEY_BYTES]; /* since the last quote, cut */
    size_t length;
};

static bool is_one_of(const struct resumption *seen, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strlen(*words) == seen->length && memcmp(*words, seen->text, seen->length) == 0)
            return true;
    return false;
}

/* Takes a quote, at the begin or end of a text. Returns true if the first key of an object is
 * complete and one of those that are looked for. */
static bool take_quote(struct resumption *seen, const char *const *keys,
                       const char *const *strangers, uint32_t *strangers_out)
{
    if (is_one_of(seen, strangers))
        (*strangers_out)++;
    if (seen->object >= 0 && seen->has_quote) {
        if (is_one_of(seen, keys))
            return true;
        seen->object = -1;
    }
    seen->has_quote = seen->object >= 0;
    seen->length = 0;
    return false;
}

static void json_take_byte(struct resumption *seen, char c, int64_t offset)
{
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';

    if (c == '{' && (seen->last == ',' || seen->is_first)) {
        seen->object = offset;
        seen->has_quote = false;
    } else if (!is_space && !seen->has_quote) {
        seen->object = -1;
    }
    if (seen->length < KEY_BYTES)
        seen->text[seen->length++] = c;
    if (!is_space)
        seen->last = c;
    seen->is_first = c == '\n' || (seen->is_first && is_space);
}

int lull_json_resume(struct lull_json *json, uint32_t depth, int64_t from, const char *const *keys,
                     const char *const *strangers, uint32_t *strangers_out, struct lull_error *err)
{
    struct resumption seen = {.object = -1, .last = ','};

    assert(depth > 0 && depth <= LULL_JSON_MAX_DEPTH);
    if (from < json->offset)
        from = json->offset;
    json->at = json->buffer + (from - json->offset);
    json->depth = depth;
    json->closing[depth - 1] = ']';
    json->expect = EXPECT_VALUE_OR_END;
    json->fault = LULL_JSON_SOUND;
    while (has_byte(json)) {
        const char c = *json->at++;

        if (c != '"') {
            json_take_byte(&seen, c, lull_json_offset(json) - 1);
            continue;
        }
        if (!take_quote(&seen, keys, strangers, strangers_out) || seen.object < json->offset)
            continue;
        json->at = json->buffer + (seen.object - json->offset);
        return 0;
    }
    return json->error.code != 0 ? report_end(json, err) : 0;
}
