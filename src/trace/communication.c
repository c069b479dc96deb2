/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/communication.h"

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

/* Compares letters alone, so that all_reduce, AllReduce and allreduce_ are one. Null: none is
 * there. */
static const char *find_operation(const char *text)
{
    char letters[64];
    size_t length = 0;

    for (; *text != '\0' && *text != '(' && length + 1 < sizeof(letters); text++) {
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

/* Null: the name is of none. */
static const struct lull_communication_name *find_name(const char *kernel)
{
    for (uint32_t i = 0; i < lull_communication_name_count; i++)
        if (strcasestr(kernel, lull_communication_names[i].text) != NULL)
            return &lull_communication_names[i];
    return NULL;
}

const char *lull_communication_of(const char *kernel, const char *collective, const regex_t *others)
{
    const struct lull_communication_name *const name = find_name(kernel);
    const char *operation;

    if (name == NULL && (others == NULL || regexec(others, kernel, 0, NULL, 0) != 0))
        return NULL;
    operation = find_operation(collective);
    if (operation == NULL && name != NULL)
        operation = name->operation;
    if (operation == NULL)
        operation = find_operation(kernel);
    return operation != NULL ? operation : "communication";
}
