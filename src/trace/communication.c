/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/communication.h"

#include <stddef.h>
#include <string.h>

/* As they are searched for: what holds another one's letters comes first. */
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

/* By the letters alone: all_reduce, AllReduce and allreduce_ are one. NULL: none. */
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

const char *lull_communication_operation(const char *kernel, const char *collective)
{
    const char *operation;

    if (strcasestr(kernel, "nccl") == NULL)
        return NULL;
    operation = find_operation(collective);
    if (operation == NULL)
        operation = find_operation(kernel);
    return operation != NULL ? operation : "communication";
}

int64_t lull_communication_bytes(int64_t elements, const char *dtype)
{
    static const struct {
        const char *dtype;
        int64_t bytes;
    } sizes[] = {
        {"Float", 4}, {"Half", 2}, {"BFloat16", 2}, {"Double", 8}, {"Long", 8},         {"Int", 4},
        {"Short", 2}, {"Char", 1}, {"Byte", 1},     {"Bool", 1},   {"ComplexFloat", 8},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (strcmp(sizes[i].dtype, dtype) == 0)
            return elements >= 0 && elements <= INT64_MAX / 16 ? elements * sizes[i].bytes : -1;
    return strncmp(dtype, "Float8", strlen("Float8")) == 0 ? elements : -1;
}
