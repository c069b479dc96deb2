/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/batch/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char size_place[] = "{batch}";
static const char rate_place[] = "{lr}";

double lull_rate_scale(enum lull_rate_rule rule, double rate, uint32_t size, uint32_t default_size)
{
    const double ratio = (double)size / (double)default_size;

    return rate * (rule == LULL_RATE_SQRT ? sqrt(ratio) : ratio);
}

bool lull_arguments_have(char *const *command, const char *place)
{
    for (; *command != NULL; command++)
        if (strstr(*command, place) != NULL)
            return true;
    return false;
}

static char *fill_word(const char *word, const char *size, const char *rate)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    while (*word != '\0') {
        if (strncmp(word, size_place, strlen(size_place)) == 0) {
            fputs(size, out);
            word += strlen(size_place);
        } else if (strncmp(word, rate_place, strlen(rate_place)) == 0 && rate[0] != '\0') {
            fputs(rate, out);
            word += strlen(rate_place);
        } else {
            fputc(*word++, out);
        }
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char **lull_arguments_fill(char *const *command, uint32_t size, double rate)
{
    char size_text[16];
    char rate_text[32] = "";
    size_t count = 0;
    char **arguments;

    while (command[count] != NULL)
        count++;
    arguments = calloc(count + 1, sizeof(*arguments));
    if (arguments == NULL)
        return NULL;
    snprintf(size_text, sizeof(size_text), "%u", size);
    if (isfinite(rate))
        snprintf(rate_text, sizeof(rate_text), "%.8g", rate);
    for (size_t i = 0; i < count; i++) {
        arguments[i] = fill_word(command[i], size_text, rate_text);
        if (arguments[i] == NULL) {
            lull_arguments_free(arguments);
            return NULL;
        }
    }
    return arguments;
}

void lull_arguments_free(char **arguments)
{
    if (arguments == NULL)
        return;
    for (char **word = arguments; *word != NULL; word++)
        free(*word);
    free(arguments);
}
