/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/communication.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the search: a word that contains another one comes first. */
static const struct {
    const char *letters;
    const char *operation;
} operations[] = {
    {"reducescatter", "reduce_scatter"},
    {"allreduce", "allreduce"},
    {"allgather", "allgather"},
    {"alltoall", "alltoall"},
    {"broadcast", "broadcast"},
    {"sendrecv", "sendrecv"},
    {"barrier", "barrier"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"send", "send"},
    {"recv", "receive"},
};

enum { PATH_BYTES = 512 };

/* ---- names -------------------------------------------------------------------------------- */

/* Copies the identifiers of a mangled C++ name, with :: between them:
 * _ZN7deep_ep9intranode8dispatch is deep_ep::intranode::dispatch. What follows the identifiers, the
 * types, is left out. */
static void copy_mangled(const char *name, char *path)
{
    size_t length = 0;

    name += strcspn(name, "0123456789");
    while (isdigit((unsigned char)*name)) {
        char *end;
        const unsigned long size = strtoul(name, &end, 10);

        if (size == 0 || size > strnlen(end, PATH_BYTES) || length + size + 3 > PATH_BYTES)
            break;
        if (length > 0) {
            path[length++] = ':';
            path[length++] = ':';
        }
        memcpy(path + length, end, size);
        length += size;
        name = end + size;
    }
    path[length] = '\0';
}

/* Copies a name without its template arguments, its parameters and its anonymous namespaces. */
static void copy_plain(const char *name, char *path)
{
    static const char anonymous[] = "(anonymous namespace)::";
    size_t length = 0;
    unsigned depth = 0; /* of template arguments */

    for (; *name != '\0' && length + 1 < PATH_BYTES; name++) {
        if (strncmp(name, anonymous, strlen(anonymous)) == 0)
            name += strlen(anonymous) - 1;
        else if (*name == '<')
            depth++;
        else if (*name == '>' && depth > 0)
            depth--;
        else if (depth == 0 && *name == '(')
            break;
        else if (depth == 0)
            path[length++] = *name;
    }
    path[length] = '\0';
}

/* Writes the identifiers of a kernel's name, which is at most PATH_BYTES with its end. */
static const char *communication_path_of(const char *name, char *path)
{
    if (strncmp(name, "_Z", strlen("_Z")) == 0)
        copy_mangled(name, path);
    else
        copy_plain(name, path);
    return path;
}

static bool communication_is_identifier(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Returns whether an identifier begins here; underscores before it are not part of it. */
static bool begins_identifier(const char *path, const char *at)
{
    while (at > path && at[-1] == '_')
        at--;
    return at == path || !communication_is_identifier(at[-1]);
}

/* Returns whether a word begins here: an identifier, or a part of one that an underscore or a
 * capital letter begins. */
static bool begins_word(const char *path, const char *at)
{
    return at == path || !isalnum((unsigned char)at[-1]) ||
           (islower((unsigned char)at[-1]) && isupper((unsigned char)at[0]));
}

static bool communication_fits(const struct lull_communication_name *name, const char *path)
{
    const size_t length = strlen(name->text);

    for (const char *at = path; (at = strcasestr(at, name->text)) != NULL; at++)
        if (begins_identifier(path, at) &&
            !(name->is_whole && communication_is_identifier(at[length])))
            return true;
    return false;
}

static bool has_word(const char *path, const char *const *words)
{
    for (; *words != NULL; words++)
        for (const char *at = path; (at = strcasestr(at, *words)) != NULL; at++)
            if (begins_word(path, at))
                return true;
    return false;
}

/* Null: the name is not that of a communication kernel. */
static const struct lull_communication_name *find_name(const char *path)
{
    if (has_word(path, lull_communication_computes))
        return NULL;
    for (uint32_t i = 0; i < lull_communication_name_count; i++)
        if (communication_fits(&lull_communication_names[i], path))
            return &lull_communication_names[i];
    return NULL;
}

/* ---- operations --------------------------------------------------------------------------- */

/* Compares letters alone, so that all_reduce, AllReduce and allreduce_ are one. Null: none is
 * there. */
static const char *communication_find_operation(const char *text)
{
    char letters[PATH_BYTES];
    size_t length = 0;

    for (; *text != '\0' && length + 1 < sizeof(letters); text++) {
        const char c = (char)(*text | 0x20);

        if (c >= 'a' && c <= 'z')
            letters[length++] = c;
    }
    letters[length] = '\0';
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strstr(letters, operations[i].letters) != NULL)
            return operations[i].operation;
    return NULL;
}

const char *lull_communication_of_collective(const char *collective)
{
    return communication_find_operation(collective);
}

const char *lull_communication_of(const char *kernel, const regex_t *others)
{
    char path[PATH_BYTES];
    const struct lull_communication_name *const name =
        find_name(communication_path_of(kernel, path));
    const char *operation = NULL;

    if (name == NULL && (others == NULL || regexec(others, kernel, 0, NULL, 0) != 0))
        return NULL;
    if (name != NULL)
        operation = name->operation;
    if (operation == NULL)
        operation = communication_find_operation(path);
    return operation != NULL ? operation : "communication";
}

bool lull_communication_is_likely(const char *kernel)
{
    char path[PATH_BYTES];

    return has_word(communication_path_of(kernel, path), lull_communication_likely);
}
