/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/nvtx_names.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { MAX_BYTES = 128 };

/* Returns the part of a name after its last dot, since names of functions are qualified. */
static const char *tail_of(const char *name, size_t length)
{
    const char *tail = name;

    for (size_t i = 0; i + 1 < length && name[i] != '('; i++)
        if (name[i] == '.')
            tail = name + i + 1;
    return tail;
}

static int nvtx_names_is_separator(char c)
{
    return c == ' ' || c == '_' || c == '-' || c == ':' || c == '#';
}

/* Returns whether a text is empty or a number, which may have a word before it or stand in
 * brackets.
 */
static int nvtx_names_is_number(const char *text)
{
    while (nvtx_names_is_separator(*text))
        text++;
    if (*text == '(' || *text == '[')
        return 1;
    while (*text >= '0' && *text <= '9')
        text++;
    return *text == '\0';
}

static int nvtx_names_skip(const char **text, const char *word)
{
    const size_t length = strlen(word);

    if (strncasecmp(*text, word, length) != 0)
        return 0;
    *text += length;
    return 1;
}

/* Returns whether a text may follow "forward" or "backward" in the name of a section. */
static int is_end(const char *text)
{
    static const char *const words[] = {"step",       "pass",        "compute",
                                        "microbatch", "micro_batch", "mb"};

    if (nvtx_names_is_number(text))
        return 1;
    while (nvtx_names_is_separator(*text))
        text++;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const char *rest = text;

        if (nvtx_names_skip(&rest, words[i]) && nvtx_names_is_number(rest))
            return 1;
    }
    return 0;
}

enum lull_nvtx_kind lull_nvtx_kind_of(const char *name)
{
    const size_t length = name == NULL ? 0 : strnlen(name, MAX_BYTES);
    enum lull_nvtx_kind kind;
    const char *text;

    if (length == 0 || length == MAX_BYTES)
        return LULL_NVTX_NONE;
    text = tail_of(name, length);
    while (*text == '_')
        text++;
    nvtx_names_skip(&text, "exec_");
    if (nvtx_names_skip(&text, "forward") || nvtx_names_skip(&text, "fwd"))
        kind = LULL_NVTX_FORWARD;
    else if (nvtx_names_skip(&text, "backward") || nvtx_names_skip(&text, "bwd"))
        kind = LULL_NVTX_BACKWARD;
    else
        return LULL_NVTX_NONE;
    if (is_end(text))
        return kind;
    return LULL_NVTX_NONE;
}
