/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/trace.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Zeus, NSDI'23, table 1 and its artefact. */
static const struct lull_batch_trace_job published[] = {
    {"cifar100", "shufflenetv2", "adadelta", 0.6, 100, 1024},
    {"imagenet", "resnet50", "adadelta", 0.65, 100, 256},
    {"squad", "bert_base_uncased", "adamw", 84.0, 6, 32},
    {"librispeech", "deepspeech2", "adamw", 40.0, 16, 192},
    {"movielens-1m", "ncf", "adam", 0.41, 100, 1024},
    {"sentiment140", "bert_base_uncased", "adamw", 0.84, 10, 128},
};

const struct lull_batch_trace_job *lull_batch_trace_find_job(const char *dataset)
{
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
        if (strcmp(published[i].dataset, dataset) == 0)
            return &published[i];
    return NULL;
}

static int zeus_trace_refuse(const struct lull_lines *lines, const char *what,
                             struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s", lull_lines_name(lines),
                          lull_lines_number(lines), what);
}

static int zeus_trace_read_header(struct lull_lines *lines, const char *expected,
                                  struct lull_error *err)
{
    char *line = NULL;
    const int rc = lull_lines_next(lines, &line, err);

    if (rc < 0)
        return rc;
    if (rc == 0 || strcmp(line, expected) != 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line 1 is not the header %s",
                              lull_lines_name(lines), expected);
    return 0;
}

/* Splits a line into exactly count cells. */
static int read_cells(const struct lull_lines *lines, char *line, char **cells, size_t count,
                      struct lull_error *err)
{
    char *rest = line;
    size_t found = 0;

    while (rest != NULL && found < count)
        cells[found++] = lull_lines_cell(&rest);
    if (found != count || rest != NULL)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %zu does not have the %zu cells of the header",
                              lull_lines_name(lines), lull_lines_number(lines), count);
    return 0;
}

static struct lull_batch_trace_size *find_size(struct lull_batch_trace *trace, uint32_t size)
{
    for (uint32_t i = 0; i < trace->size_count; i++)
        if (trace->sizes[i].size == size)
            return &trace->sizes[i];
    return NULL;
}

/* Finds the size, or inserts it in its ascending place. NULL: there are too many. */
static struct lull_batch_trace_size *zeus_trace_add_size(struct lull_batch_trace *trace,
                                                         uint32_t size)
{
    struct lull_batch_trace_size *found = find_size(trace, size);
    uint32_t place = 0;

    if (found != NULL || trace->size_count == LULL_BATCH_TRACE_SIZES)
        return found;
    while (place < trace->size_count && trace->sizes[place].size < size)
        place++;
    memmove(&trace->sizes[place + 1], &trace->sizes[place],
            (trace->size_count - place) * sizeof(trace->sizes[0]));
    memset(&trace->sizes[place], 0, sizeof(trace->sizes[0]));
    trace->sizes[place].size = size;
    trace->size_count++;
    return &trace->sizes[place];
}

static bool is_of_job(const struct lull_batch_trace_job *job, char *const *cells)
{
    return strcmp(cells[0], job->dataset) == 0 && strcmp(cells[1], job->network) == 0 &&
           strcmp(cells[3], job->optimizer) == 0;
}

static int parse_size(const struct lull_lines *lines, const char *text, uint32_t *size_out,
                      struct lull_error *err)
{
    int64_t size;

    if (lull_text_parse_int(text, 1, UINT32_MAX, &size) < 0)
        return zeus_trace_refuse(lines, "batch_size is not a whole number above 0", err);
    *size_out = (uint32_t)size;
    return 0;
}

/* ---- power -------------------------------------------------------------------------------- */

static int zeus_trace_add_limit(struct lull_batch_trace_size *size,
                                const struct lull_batch_trace_limit *limit)
{
    uint32_t place = 0;

    while (place < size->limit_count && size->limits[place].limit_w > limit->limit_w)
        place++;
    if (size->limit_count == LULL_BATCH_TRACE_LIMITS ||
        (place < size->limit_count && size->limits[place].limit_w == limit->limit_w))
        return -EEXIST;
    memmove(&size->limits[place + 1], &size->limits[place],
            (size->limit_count - place) * sizeof(size->limits[0]));
    size->limits[place] = *limit;
    size->limit_count++;
    return 0;
}

static int read_power_row(struct lull_batch_trace *trace, struct lull_lines *lines, char *line,
                          struct lull_error *err)
{
    enum { CELLS = 7 };
    char *cells[CELLS];
    struct lull_batch_trace_limit limit;
    struct lull_batch_trace_size *found;
    uint32_t size = 0;
    int rc = read_cells(lines, line, cells, CELLS, err);

    if (rc == 0)
        rc = parse_size(lines, cells[2], &size, err);
    if (rc < 0)
        return rc;
    if (lull_text_parse_number(cells[4], &limit.limit_w) < 0 || !(limit.limit_w > 0.0) ||
        lull_text_parse_number(cells[5], &limit.time_s) < 0 || !(limit.time_s > 0.0) ||
        lull_text_parse_number(cells[6], &limit.power_w) < 0 || !(limit.power_w >= 0.0))
        return zeus_trace_refuse(
            lines,
            "power_limit, time_per_epoch and average_power must be numbers, the first two above 0",
            err);
    if (limit.limit_w > trace->max_power_w)
        trace->max_power_w = limit.limit_w;
    if (!is_of_job(&trace->job, cells))
        return 0;
    found = zeus_trace_add_size(trace, size);
    if (found == NULL || zeus_trace_add_limit(found, &limit) < 0)
        return zeus_trace_refuse(
            lines, "the power limit is there twice, or there are too many batch sizes or limits",
            err);
    return 0;
}

/* ---- training ----------------------------------------------------------------------------- */

static int add_path(const struct lull_lines *lines, struct lull_batch_trace_size *size,
                    char *const *cells, struct lull_error *err)
{
    const double max_epochs = 1e9;
    struct lull_batch_trace_path path = {.epochs = NAN};
    int64_t run;

    if (lull_text_parse_int(cells[5], 0, UINT32_MAX, &run) < 0)
        return zeus_trace_refuse(lines, "run is not a whole number", err);
    if (strcmp(cells[7], "nan") != 0 && (lull_text_parse_number(cells[7], &path.epochs) < 0 ||
                                         !(path.epochs >= 1.0 && path.epochs <= max_epochs)))
        return zeus_trace_refuse(lines, "target_epoch is neither nan nor 1 or more", err);
    if (size->path_count == LULL_BATCH_TRACE_PATHS)
        return zeus_trace_refuse(lines, "there are too many repetitions of this batch size", err);
    path.run = (uint32_t)run;
    size->paths[size->path_count++] = path;
    return 0;
}

static int read_train_row(struct lull_batch_trace *trace, struct lull_lines *lines, char *line,
                          bool *is_trained, struct lull_error *err)
{
    enum { CELLS = 8 };
    char *cells[CELLS];
    struct lull_batch_trace_size *found;
    uint32_t size = 0;
    double target;
    int rc = read_cells(lines, line, cells, CELLS, err);

    if (rc == 0)
        rc = parse_size(lines, cells[2], &size, err);
    if (rc < 0)
        return rc;
    if (lull_text_parse_number(cells[6], &target) < 0)
        return zeus_trace_refuse(lines, "target_metric is not a number", err);
    found = is_of_job(&trace->job, cells) ? find_size(trace, size) : NULL;
    if (found == NULL)
        return 0;
    is_trained[found - trace->sizes] = true;
    return target == trace->job.target ? add_path(lines, found, cells, err) : 0;
}

/* ---- both --------------------------------------------------------------------------------- */

static int zeus_trace_read_power(struct lull_batch_trace *trace, struct lull_lines *lines,
                                 struct lull_error *err)
{
    char *line = NULL;
    int rc = zeus_trace_read_header(
        lines, "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power",
        err);

    while (rc >= 0 && (rc = lull_lines_next(lines, &line, err)) > 0)
        rc = read_power_row(trace, lines, line, err);
    return rc;
}

static int read_train(struct lull_batch_trace *trace, struct lull_lines *lines, bool *is_trained,
                      struct lull_error *err)
{
    char *line = NULL;
    int rc = zeus_trace_read_header(
        lines, "dataset,network,batch_size,optimizer,learning_rate,run,target_metric,target_epoch",
        err);

    while (rc >= 0 && (rc = lull_lines_next(lines, &line, err)) > 0)
        rc = read_train_row(trace, lines, line, is_trained, err);
    return rc;
}

/* Keeps the sizes that are in both tables. The default becomes the largest of them if it is above.
 */
static int zeus_trace_join(struct lull_batch_trace *trace, const bool *is_trained,
                           struct lull_error *err)
{
    const struct lull_batch_trace_job *job = &trace->job;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < trace->size_count; i++)
        if (is_trained[i])
            trace->sizes[kept++] = trace->sizes[i];
    trace->size_count = kept;
    if (kept == 0)
        return lull_error_set(err, -ENOENT, "no batch size of %s with %s and %s is in both traces",
                              job->dataset, job->network, job->optimizer);
    if (trace->job.default_size > trace->sizes[kept - 1].size)
        trace->job.default_size = trace->sizes[kept - 1].size;
    if (find_size(trace, trace->job.default_size) == NULL)
        return lull_error_set(err, -ENOENT, "%s: the default batch size %u was not recorded",
                              job->dataset, trace->job.default_size);
    return 0;
}

int lull_batch_trace_read(const struct lull_batch_trace_job *job, const char *train_path,
                          const char *power_path, struct lull_batch_trace **trace_out,
                          struct lull_error *err)
{
    struct lull_batch_trace *trace = calloc(1, sizeof(*trace));
    struct lull_lines *train = NULL;
    struct lull_lines *power = NULL;
    bool is_trained[LULL_BATCH_TRACE_SIZES] = {false};
    int rc;

    if (trace == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the traces");
    trace->job = *job;
    rc = lull_lines_open(train_path, &train, err);
    if (rc < 0)
        goto close;
    rc = lull_lines_open(power_path, &power, err);
    if (rc < 0)
        goto close;
    rc = zeus_trace_read_power(trace, power, err);
    if (rc < 0)
        goto close;
    rc = read_train(trace, train, is_trained, err);
    if (rc < 0)
        goto close;
    rc = zeus_trace_join(trace, is_trained, err);
    if (rc < 0)
        goto close;
    *trace_out = trace;
    trace = NULL;

close:
    lull_lines_close(power);
    lull_lines_close(train);
    lull_batch_trace_destroy(trace);
    return rc;
}

void lull_batch_trace_destroy(struct lull_batch_trace *trace)
{
    free(trace);
}
