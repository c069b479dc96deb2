/*
 * Failures of nodes, prices and carbon: refused with a message, or rows in order and in their
 * ranges. SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

#include "cluster/trace/cluster_tables.h"

enum { NODES = 16 };

static void check_failures(const char *path)
{
    struct lull_cluster_failure *failures = NULL;
    struct lull_error err = {0};
    size_t count = 0;

    if (lull_cluster_failures_read(path, NODES, &failures, &count, &err) < 0) {
        require(err.text[0] != '\0' && failures == NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        require(failures[i].node < NODES && failures[i].from_ns >= 0);
        require(failures[i].to_ns > failures[i].from_ns);
        require(i == 0 || failures[i].from_ns >= failures[i - 1].from_ns);
    }
    free(failures);
}

static void check_tariff(const char *path, enum lull_tariff_kind kind)
{
    struct lull_tariff_table table;
    struct lull_error err = {0};

    if (lull_tariff_read(path, kind, &table, &err) < 0) {
        require(err.text[0] != '\0' && table.time_ns == NULL);
        return;
    }
    require(table.tariff.count > 0 && table.time_ns[0] >= 0);
    for (size_t i = 0; i < table.tariff.count; i++)
        require(isfinite(table.tariff.value[i]) &&
                (i == 0 || table.tariff.time_ns[i] > table.tariff.time_ns[i - 1]));
    lull_tariff_fini(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int reader = 0; reader < 3; reader++) {
        const char *const path = text_file(data, size);

        if (reader == 0)
            check_failures(path);
        else
            check_tariff(path, reader == 1 ? LULL_TARIFF_PRICE : LULL_TARIFF_CARBON);
    }
    return 0;
}
