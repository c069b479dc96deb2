/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Accept ------------------------------------------------------------------------------ */

static const char spaces[] = " \t";

/* One of a header's parts between separators, without the spaces around it. */
struct header_part {
    const char *text;
    size_t size;
};

/* Takes the part up to the separator, or to the end; *at goes behind it. */
static struct header_part http_request_take_part(const char **at, const char *end, char separator)
{
    const char *const stop = memchr(*at, separator, (size_t)(end - *at));
    const char *const last = stop != NULL ? stop : end;
    struct header_part part = {*at, (size_t)(last - *at)};

    *at = stop != NULL ? stop + 1 : end;
    while (part.size > 0 && strchr(spaces, part.text[0]) != NULL) {
        part.text++;
        part.size--;
    }
    while (part.size > 0 && strchr(spaces, part.text[part.size - 1]) != NULL)
        part.size--;
    return part;
}

static bool http_request_is_same(struct header_part part, const char *text)
{
    return part.size == strlen(text) && strncasecmp(part.text, text, part.size) == 0;
}

/* Reads "q=0.5" in thousandths; what is no weight counts as none. */
static uint32_t read_weight(struct header_part part)
{
    uint32_t weight = 0;
    uint32_t unit = 1000;

    if (part.size < 3 || part.text[2] < '0' || part.text[2] > '1')
        return 0;
    for (size_t i = 2; i < part.size && unit > 0; i++) {
        if (i == 3 && part.text[i] == '.')
            continue;
        if (part.text[i] < '0' || part.text[i] > '9')
            break;
        weight += unit * (uint32_t)(part.text[i] - '0');
        unit /= 10;
    }
    return weight < 1000 ? weight : 1000;
}

/* Client's preference for a media type. A range with the type's own name overrides a wildcard. */
struct liking {
    uint32_t weight; /* thousandths */
    uint32_t detail; /* of the range that says so: 3 its name, 2 its main type, 1 all types */
};

static void http_request_raise_liking(struct liking *liking, uint32_t detail, uint32_t weight)
{
    if (detail > liking->detail || (detail == liking->detail && weight > liking->weight))
        *liking = (struct liking){weight, detail};
}

enum lull_serve_format lull_serve_choose_format(const char *accept)
{
    struct liking text = {0};
    struct liking openmetrics = {0};
    const char *at = accept;
    const char *end;

    if (accept == NULL)
        return LULL_SERVE_TEXT;
    end = accept + strlen(accept);
    while (at < end) {
        const struct header_part range = http_request_take_part(&at, end, ',');
        const char *inner = range.text;
        const char *const range_end = range.text + range.size;
        const struct header_part type = http_request_take_part(&inner, range_end, ';');
        uint32_t weight = 1000;

        while (inner < range_end) {
            const struct header_part parameter = http_request_take_part(&inner, range_end, ';');

            if (parameter.size >= 2 && strncasecmp(parameter.text, "q=", 2) == 0)
                weight = read_weight(parameter);
        }
        if (http_request_is_same(type, "application/openmetrics-text"))
            http_request_raise_liking(&openmetrics, 3, weight);
        else if (http_request_is_same(type, "text/plain"))
            http_request_raise_liking(&text, 3, weight);
        else if (http_request_is_same(type, "application/*"))
            http_request_raise_liking(&openmetrics, 2, weight);
        else if (http_request_is_same(type, "text/*"))
            http_request_raise_liking(&text, 2, weight);
        else if (http_request_is_same(type, "*/*")) {
            http_request_raise_liking(&openmetrics, 1, weight);
            http_request_raise_liking(&text, 1, weight);
        }
    }
    return openmetrics.weight > text.weight ? LULL_SERVE_OPENMETRICS : LULL_SERVE_TEXT;
}

/* ---- Host -------------------------------------------------------------------------------- */

static bool is_port(const char *text)
{
    uint32_t digits = 0;

    for (; *text >= '0' && *text <= '9'; text++)
        digits++;
    return *text == '\0' && digits >= 1 && digits <= 5;
}

bool lull_serve_is_own_host(const char *host)
{
    char name[INET6_ADDRSTRLEN];
    struct in_addr address;
    size_t size;

    if (host == NULL)
        return false;
    size = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (size > strlen(host) || size >= sizeof(name))
        return false;
    memcpy(name, host, size);
    name[size] = '\0';
    if (host[size] != '\0' && (host[size] != ':' || !is_port(host + size + 1)))
        return false;
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

/* ---- Authorization ----------------------------------------------------------------------- */

/* Compares every byte of the token, even after a difference, so that the time is constant. */
static bool is_token(const char *given, size_t size, const char *token)
{
    const size_t wanted = strlen(token);
    uint32_t difference = size != wanted;

    for (size_t i = 0; i < wanted; i++)
        difference |= (uint32_t)(unsigned char)token[i] ^
                      (i < size ? (uint32_t)(unsigned char)given[i] : UINT32_C(256));
    return difference == 0;
}

static int value_of_digit(char digit)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *const found = digit != '\0' ? strchr(digits, digit) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* Decodes base64 up to its padding; returns how many bytes, at most size; -EINVAL: it is none. */
static int decode_base64(const char *text, char *bytes_out, size_t size)
{
    uint32_t bits = 0;
    uint32_t count = 0;
    size_t used = 0;

    for (; *text != '\0' && *text != '='; text++) {
        const int value = value_of_digit(*text);

        if (value < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        if (used >= size)
            return -EINVAL;
        bytes_out[used++] = (char)(bits >> count & 0xff);
    }
    return text[strspn(text, "=")] == '\0' ? (int)used : -EINVAL;
}

static bool is_basic_authorized(const char *text, const char *token)
{
    char bytes[2 * LULL_SERVE_MAX_TOKEN]; /* a user's name, a colon and the token */
    const int size = decode_base64(text, bytes, sizeof(bytes));
    const char *colon;

    if (size <= 0)
        return false;
    colon = memchr(bytes, ':', (size_t)size);
    if (colon == NULL)
        return false;
    return is_token(colon + 1, (size_t)(bytes + size - colon - 1), token);
}

bool lull_serve_is_authorized(const char *authorization, const char *token)
{
    const char *value;

    if (authorization == NULL)
        return false;
    value = authorization + strcspn(authorization, " ");
    value += strspn(value, " ");
    if (strncasecmp(authorization, "Bearer ", 7) == 0)
        return is_token(value, strlen(value), token);
    if (strncasecmp(authorization, "Basic ", 6) == 0)
        return is_basic_authorized(value, token);
    return false;
}

int lull_serve_take_token(const char *text, char *token_out)
{
    const size_t size = strcspn(text, "\r\n");

    if (size < LULL_SERVE_MIN_TOKEN || size > LULL_SERVE_MAX_TOKEN)
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return -EINVAL;
    memcpy(token_out, text, size);
    token_out[size] = '\0';
    return 0;
}

/* ---- names ------------------------------------------------------------------------------- */

bool lull_serve_is_run_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 256;
}
