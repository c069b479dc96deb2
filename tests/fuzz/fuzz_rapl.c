/*
 * sysfs's data of RAPL zones: the first line is a zone's directory, the second its name, the
 * rest a counter. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device/rapl.h"
#include "fuzz.h"

/* A line as a text of its own; returns where the next one begins. */
static size_t take_line(const char *data, size_t size, size_t from, char line[64])
{
    size_t length = 0;

    while (from < size && data[from] != '\n') {
        if (length < 63)
            line[length++] = data[from];
        from++;
    }
    line[length] = '\0';
    return from < size ? from + 1 : size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char zone[64];
    char name[64];
    char again[32];
    uint64_t value = 0;
    uint64_t reread = 1;
    size_t from = take_line(text, size, 0, zone);
    enum lull_rapl_kind kind;

    from = take_line(text, size, from, name);
    kind = lull_rapl_kind_of(zone, name);
    require(kind == LULL_RAPL_NOT_ADDED || strncmp(zone, "intel-rapl:", 11) == 0);
    require(kind != LULL_RAPL_DRAM || strcmp(name, "dram") == 0);
    if (lull_rapl_parse_uj(text + from, size - from, &value) == 0) {
        snprintf(again, sizeof(again), "%" PRIu64 "\n", value);
        require(lull_rapl_parse_uj(again, strlen(again), &reread) == 0 && reread == value);
        require(lull_rapl_grown_uj(value, value, size) == 0);
        require(lull_rapl_grown_uj(0, value, 0) == value);
        if (value > 0 && value < UINT64_MAX / 2)
            require(lull_rapl_grown_uj(value, 0, 2 * value) == value);
    } else {
        require(value == 0);
    }
    return 0;
}
