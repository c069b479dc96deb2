/*
 * Another tool's injection library: counts pushes and pops of the default domain, and answers 100.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*function)(void);
struct callbacks {
    size_t size;
    int (*functions)(int module, function ***table, unsigned *size);
};

int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t));

static unsigned pushed, popped;

static int push(const char *name)
{
    pushed += name != NULL;
    return 100;
}

static int pop(void)
{
    popped++;
    return 100;
}

__attribute__((destructor)) static void tell(void)
{
    printf("tool saw %u pushes, %u pops\n", pushed, popped);
}

int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t))
{
    const struct callbacks *callbacks = get_table(1);
    function **table;
    unsigned size;

    if (callbacks->functions(1, &table, &size) != 1)
        return 0;
    *table[9] = (function)push;
    *table[11] = (function)pop;
    return 1;
}
