/*
 * Requests of clients of `lull serve`: any header is accepted or refused, without access out of
 * bounds; only the exact token is accepted. The first byte of the input selects the header, whose
 * value follows. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>
#include <strings.h>

#include "cli/serve/request.h"
#include "fuzz.h"

static const char token[] = "0123456789abcdef";

static void check_token(const char *text)
{
    char taken[LULL_SERVE_MAX_TOKEN + 1] = "untouched";

    if (lull_serve_take_token(text, taken) < 0) {
        require(strcmp(taken, "untouched") == 0);
        return;
    }
    require(strlen(taken) >= LULL_SERVE_MIN_TOKEN && strlen(taken) <= LULL_SERVE_MAX_TOKEN);
    require(strncmp(text, taken, strlen(taken)) == 0);
    for (const char *c = taken; *c != '\0'; c++)
        require(*c > ' ' && *c <= '~');
}

static void check_authorization(const char *text)
{
    /* The base64 of a text that ends with the token has its last digits in one of three ways. */
    if (lull_serve_is_authorized(text, token))
        require(strstr(text, token) != NULL || strstr(text, "MTIzNDU2Nzg5YWJjZGVm") != NULL ||
                strstr(text, "AxMjM0NTY3ODlhYmNkZW") != NULL ||
                strstr(text, "wMTIzNDU2Nzg5YWJjZGVm") != NULL ||
                strstr(text, "EyMzQ1Njc4OWFiY2RlZ") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[4096];

    if (size == 0 || size > sizeof(text))
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0]) {
    case 'a':
        if (lull_serve_choose_format(text) == LULL_SERVE_OPENMETRICS)
            require(strchr(text, '/') != NULL);
        break;
    case 'h':
        if (lull_serve_is_own_host(text))
            require(strncmp(text, "127.", 4) == 0 || strncmp(text, "[::1]", 5) == 0 ||
                    strncasecmp(text, "localhost", 9) == 0);
        break;
    case 'b':
        check_authorization(text);
        break;
    case 't':
        check_token(text);
        break;
    default:
        if (lull_serve_is_run_name(text))
            require(text[0] != '.' && text[0] != '\0' && strchr(text, '/') == NULL);
    }
    return 0;
}
