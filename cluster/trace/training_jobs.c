/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/training_jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/json_fields.h"

enum { WORD = 16, MAX_COUNT = 1 << 24 };

/* A job as the file has it. */
struct job_text {
    struct lull_training_entry entry;
    int64_t layers, hidden, heads, kv_heads, feed_forward, vocabulary, sequence, products;
    int64_t gpus, tensor, context, pipeline, chunks, batch, micro_batch;
    char mask[WORD], precision[WORD], attention[WORD], recompute[WORD], sharded[WORD];
    char between[WORD], collectives[WORD], gradients[WORD], weights[WORD];
};

struct jobs_reading {
    struct lull_training_jobs *jobs;
    const char *path;
};

/* ---- words ---------------------------------------------------------------------------------- */

/* A keyword and its value, its place in the list. The first one is the default. */
struct word_row {
    const char *key;
    size_t offset; /* of the text */
    const char *words[4];
};

enum training_word {
    MASK,
    PRECISION,
    ATTENTION,
    RECOMPUTE,
    SHARDED,
    BETWEEN,
    COLLECTIVES,
    GRADIENTS,
    WEIGHTS,
    WORDS
};

#define WORD_ROW(key, member, ...)                                                                 \
    {                                                                                              \
        key, offsetof(struct job_text, member),                                                    \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }

static const struct word_row word_rows[WORDS] = {
    [MASK] = WORD_ROW("mask", mask, "causal", "none"),
    [PRECISION] = WORD_ROW("precision", precision, "bf16", "fp8"),
    [ATTENTION] = WORD_ROW("attention", attention, "fused", "unfused"),
    [RECOMPUTE] = WORD_ROW("recompute", recompute, "nothing", "selective", "full"),
    [SHARDED] = WORD_ROW("sharded", sharded, "nothing", "optimizer", "parameters"),
    [BETWEEN] = WORD_ROW("between_products", between, "whole", "split"),
    [COLLECTIVES] = WORD_ROW("tensor_collectives", collectives, "exposed", "overlapped"),
    [GRADIENTS] = WORD_ROW("gradients", gradients, "early", "late"),
    [WEIGHTS] = WORD_ROW("weights", weights, "trained", "frozen"),
};

/* The place of a word; negative: it is none of the list. */
static int job_file_find_word(const struct word_row *row, const struct job_text *text)
{
    const char *const word = (const char *)text + row->offset;

    if (word[0] == '\0')
        return 0;
    for (int i = 0; row->words[i] != NULL; i++)
        if (strcmp(row->words[i], word) == 0)
            return i;
    return -EINVAL;
}

static int read_words(struct lull_json_reader *reader, const struct job_text *text, int *places)
{
    for (int i = 0; i < WORDS; i++) {
        const struct word_row *row = &word_rows[i];

        places[i] = job_file_find_word(row, text);
        if (places[i] < 0)
            return lull_error_set(
                reader->err, LULL_E_FORMAT, "%s: job \"%s\": %s is %s, %s%s%s; not \"%s\"",
                reader->name, text->entry.name, row->key, row->words[0], row->words[1],
                row->words[2] != NULL ? " or " : "", row->words[2] != NULL ? row->words[2] : "",
                (const char *)text + row->offset);
    }
    return 0;
}

/* ---- a job ---------------------------------------------------------------------------------- */

static uint32_t or_else(int64_t count, int64_t otherwise)
{
    return (uint32_t)(count > 0 ? count : otherwise);
}

static void job_file_take(const struct job_text *text, const int *places,
                          struct lull_training_entry *entry)
{
    struct lull_training_setup *job = &entry->job;
    struct lull_training_model *model = &job->model;

    model->layers = (uint32_t)text->layers;
    model->hidden = (uint32_t)text->hidden;
    model->heads = (uint32_t)text->heads;
    model->kv_heads = or_else(text->kv_heads, text->heads);
    model->feed_forward = or_else(text->feed_forward, 4 * text->hidden);
    model->is_gated = text->products == 3;
    model->vocabulary = (uint32_t)text->vocabulary;
    model->sequence = (uint32_t)text->sequence;
    model->is_causal = places[MASK] == 0;
    job->gpus = (uint32_t)text->gpus;
    job->tensor = or_else(text->tensor, 1);
    job->context = or_else(text->context, 1);
    job->pipeline = or_else(text->pipeline, 1);
    job->chunks = or_else(text->chunks, 1);
    job->batch = (uint32_t)text->batch;
    job->micro_batch = or_else(text->micro_batch, 1);
    job->precision = (enum lull_training_precision)places[PRECISION];
    job->attention = (enum lull_training_attention)places[ATTENTION];
    job->recompute = (enum lull_training_recompute)places[RECOMPUTE];
    job->sharding = (enum lull_training_sharding)places[SHARDED];
    job->is_sequence_parallel = places[BETWEEN] == 1;
    job->is_tensor_overlapped = places[COLLECTIVES] == 1;
    job->is_gradient_late = places[GRADIENTS] == 1;
    job->is_frozen = places[WEIGHTS] == 1;
}

#define JOB(key, member)                                                                           \
    {                                                                                              \
        LULL_JSON_INTEGER(key, struct job_text, member, MAX_COUNT)                                 \
    }
#define TEXT(key, member)                                                                          \
    {                                                                                              \
        LULL_JSON_TEXT(key, struct job_text, member)                                               \
    }
#define REAL(key, member)                                                                          \
    {                                                                                              \
        LULL_JSON_REAL(key, struct job_text, member)                                               \
    }

static const struct lull_json_field model_fields[] = {
    JOB("layers", layers),
    JOB("hidden", hidden),
    JOB("heads", heads),
    JOB("kv_heads", kv_heads),
    JOB("feed_forward", feed_forward),
    JOB("feed_forward_products", products),
    JOB("vocabulary", vocabulary),
    JOB("sequence", sequence),
    TEXT("mask", mask),
    REAL("layer_parameters", entry.job.model.parameters),
    REAL("layer_flops", entry.job.model.flops),
    REAL("layer_bytes", entry.job.model.bytes),
    REAL("layer_kernels", entry.job.model.kernels),
    {NULL},
};

static const struct lull_json_field job_fields[] = {
    TEXT("name", entry.name),
    TEXT("gpu", entry.gpu),
    TEXT("software", entry.software),
    TEXT("use", entry.use),
    REAL("measured_step_s", entry.step_s),
    REAL("measured_node_w", entry.node_w),
    TEXT("node_use", entry.node_use),
    REAL("matrix_ratio", entry.job.matrix_ratio),
    REAL("gap_s", entry.job.gap_s),
    REAL("input_s", entry.job.input_s),
    REAL("copy_s", entry.job.copy_s),
    {LULL_JSON_OBJECT("model", model_fields)},
    JOB("gpus", gpus),
    JOB("tensor", tensor),
    JOB("context", context),
    JOB("pipeline", pipeline),
    JOB("chunks", chunks),
    JOB("batch", batch),
    JOB("micro_batch", micro_batch),
    TEXT("precision", precision),
    TEXT("attention", attention),
    TEXT("recompute", recompute),
    TEXT("sharded", sharded),
    TEXT("between_products", between),
    TEXT("tensor_collectives", collectives),
    TEXT("gradients", gradients),
    TEXT("weights", weights),
    {NULL},
};

/* Larger numbers occur in no real job, and their products would not be finite. */
static int check_reals(struct lull_json_reader *reader, const struct lull_training_entry *entry)
{
    const struct lull_training_setup *job = &entry->job;
    const double max_s = 1e5;
    const double most_w = 1e6;
    const double most = 1e18;

    if (entry->step_s > max_s || job->gap_s > max_s || job->input_s > max_s || job->copy_s > max_s)
        return lull_error_set(reader->err, LULL_E_FORMAT, "%s: job \"%s\": a time is beyond %.0f s",
                              reader->name, entry->name, max_s);
    if (entry->node_w > most_w)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: job \"%s\": a node draws more than %.0f W", reader->name,
                              entry->name, most_w);
    if (job->matrix_ratio > 1.5)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: job \"%s\": matrix_ratio is beyond 1.5", reader->name,
                              entry->name);
    if (job->model.parameters > most || job->model.flops > most || job->model.bytes > most ||
        job->model.kernels > 1e6)
        return lull_error_set(reader->err, LULL_E_FORMAT,
                              "%s: job \"%s\": a layer has more than 1e18 of something",
                              reader->name, entry->name);
    return 0;
}

static int job_file_read(struct lull_json_reader *reader, void *object)
{
    struct jobs_reading *const reading = reader->context;
    struct lull_training_jobs *const jobs = reading->jobs;
    struct job_text text = {0};
    int places[WORDS];
    int rc;

    (void)object;
    reader->is_strict = true; /* a key that is misspelt would be a default in silence */
    rc = lull_json_read_fields(reader, job_fields, &text);
    reader->is_strict = false;
    if (rc >= 0)
        rc = read_words(reader, &text, places);
    if (rc >= 0)
        rc = check_reals(reader, &text.entry);
    if (rc < 0)
        return rc;
    if (text.entry.gpu[0] == '\0')
        return lull_json_refuse(reader, "a job without \"gpu\"");
    if (jobs->count == LULL_TRAINING_JOBS)
        return lull_json_refuse(reader, "more jobs than 4096");
    job_file_take(&text, places, &text.entry);
    return lull_trace_append(&jobs->entries, &jobs->count, &text.entry, sizeof(text.entry),
                             reading->path, reader->err);
}

static const struct lull_json_field document[] = {
    {LULL_JSON_OBJECTS("jobs", job_file_read)},
    {NULL},
};

int lull_training_jobs_read(const char *path, struct lull_training_jobs *jobs_out,
                            struct lull_error *err)
{
    struct jobs_reading reading = {jobs_out, path};
    struct lull_source *source = NULL;
    int rc;

    *jobs_out = (struct lull_training_jobs){0};
    rc = lull_source_open(path, &source, err);
    if (rc >= 0)
        rc = lull_json_read_document(source, path, document, NULL, &reading, err);
    lull_source_close(source);
    if (rc >= 0 && jobs_out->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: there are no \"jobs\" in it", path);
    if (rc < 0)
        lull_training_jobs_fini(jobs_out);
    return rc < 0 ? rc : 0;
}

void lull_training_jobs_fini(struct lull_training_jobs *jobs)
{
    free(jobs->entries);
    *jobs = (struct lull_training_jobs){0};
}
