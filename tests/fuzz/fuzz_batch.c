/*
 * Tables of recorded training, and recorded series: refused with a message, or within their ranges.
 * The first line of the input that begins with "=" parts the two tables.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "../text_file.h"
#include "fuzz.h"
#include "lab/reproduce/zeus/series.h"
#include "lab/reproduce/zeus/trace.h"

static void check_trace(const struct lull_batch_trace *trace)
{
    require(trace->size_count > 0 && trace->size_count <= LULL_BATCH_TRACE_SIZES);
    for (uint32_t i = 0; i < trace->size_count; i++) {
        const struct lull_batch_trace_size *size = &trace->sizes[i];

        require(i == 0 || size->size > trace->sizes[i - 1].size);
        require(size->limit_count > 0 && size->limit_count <= LULL_BATCH_TRACE_LIMITS);
        require(size->path_count <= LULL_BATCH_TRACE_PATHS);
        for (uint32_t k = 0; k < size->limit_count; k++) {
            require(size->limits[k].time_s > 0.0 && size->limits[k].limit_w <= trace->max_power_w);
            require(k == 0 || size->limits[k].limit_w < size->limits[k - 1].limit_w);
        }
        for (uint32_t k = 0; k < size->path_count; k++)
            require(isnan(size->paths[k].epochs) || size->paths[k].epochs >= 1.0);
    }
}

static void read_tables(const char *text, size_t size)
{
    const struct lull_batch_trace_job *job = lull_batch_trace_find_job("squad");
    const char *middle = memmem(text, size, "\n=", 2);
    const size_t first = middle == NULL ? size : (size_t)(middle - text);
    const size_t second = middle == NULL ? size : first + 2;
    struct lull_batch_trace *trace = NULL;
    struct lull_error err = {0};

    if (lull_batch_trace_read(job, text_file(text, first), text_file(text + second, size - second),
                              &trace, &err) < 0)
        require(err.text[0] != '\0' && trace == NULL);
    else
        check_trace(trace);
    lull_batch_trace_destroy(trace);
}

static void read_series(const char *text, size_t size)
{
    static struct lull_batch_golden_row row;
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};
    int rc;

    require(lull_lines_open(text_file(text, size), &lines, &err) == 0);
    rc = lull_batch_golden_begin(lines, &err);
    while (rc >= 0 && (rc = lull_batch_golden_next(lines, &row, &err)) > 0) {
        require(row.order_count <= LULL_BATCH_GOLDEN_ARMS);
        require(row.arm_count <= LULL_BATCH_GOLDEN_ARMS);
        require(row.path_count == 0 || row.path_index < row.path_count);
    }
    require(rc == 0 || err.text[0] != '\0');
    lull_lines_close(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_tables((const char *)data, size);
    read_series((const char *)data, size);
    return 0;
}
