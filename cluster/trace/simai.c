/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/simai.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/lines.h"
#include "trace/string_set.h"

#define MAX INT64_C(1000000000000000000) /* ns, about 30 years; or bytes */

struct simai_reading {
    struct lull_lines *lines;
    struct lull_simai_workload *workload;
    struct lull_error *err;
};

static int simai_refuse(const struct simai_reading *reading, const char *what)
{
    return lull_lines_refuse(reading->lines, reading->err, "%s", what);
}

/* Takes the next word of a line, "" after the last one. Writes into the line. */
static char *simai_take_word(char **rest)
{
    static const char space[] = " \t";
    char *const word = *rest + strspn(*rest, space);
    char *const end = word + strcspn(word, space);

    *rest = *end != '\0' ? end + 1 : end;
    *end = '\0';
    return word;
}

static int next_line(const struct simai_reading *reading, char **line_out)
{
    const int rc = lull_lines_next(reading->lines, line_out, reading->err);

    if (rc == 0)
        return lull_error_set(reading->err, LULL_E_FORMAT,
                              "%s: the file ends after line %zu; more lines were expected",
                              lull_lines_name(reading->lines), lull_lines_number(reading->lines));
    return rc < 0 ? rc : 0;
}

/* ---- header ------------------------------------------------------------------------------- */

static int64_t *simai_find_place(struct lull_simai_workload *workload, const char *name)
{
    const struct {
        const char *name;
        int64_t *place;
    } places[] = {{"model_parallel_NPU_group", &workload->tensor_parallel},
                  {"ep", &workload->expert_parallel},
                  {"pp", &workload->pipeline_parallel},
                  {"vpp", &workload->virtual_stages},
                  {"ga", &workload->micro_batches},
                  {"all_gpus", &workload->gpus},
                  {"pp_comm", &workload->pipeline_bytes}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (strcmp(places[i].name, name) == 0)
            return places[i].place;
    return NULL;
}

/* Reads a strategy, then names, with or without a colon, each with a number after it. */
static int simai_read_header(const struct simai_reading *reading)
{
    char *rest = NULL;
    const int rc = next_line(reading, &rest);

    if (rc < 0)
        return rc;
    if (simai_take_word(&rest)[0] == '\0')
        return simai_refuse(reading, "there is no strategy of parallelism at its beginning");
    for (char *name = simai_take_word(&rest); name[0] != '\0'; name = simai_take_word(&rest)) {
        const char *const number = simai_take_word(&rest);
        int64_t *place;

        name[strcspn(name, ":")] = '\0';
        place = simai_find_place(reading->workload, name);
        if (place != NULL && lull_text_parse_int(number, 0, MAX, place) < 0)
            return simai_refuse(reading, "there is no number after a name");
    }
    return 0;
}

static int simai_read_count(const struct simai_reading *reading, size_t *count_out)
{
    char *rest = NULL;
    int64_t count = 0;
    const int rc = next_line(reading, &rest);

    if (rc < 0)
        return rc;
    if (lull_text_parse_int(simai_take_word(&rest), 1, LULL_SIMAI_MAX_LAYERS, &count) < 0 ||
        simai_take_word(&rest)[0] != '\0')
        return simai_refuse(reading,
                            "this should be the number of layers that follow, 1 to 1048576");
    *count_out = (size_t)count;
    return 0;
}

/* ---- layers ------------------------------------------------------------------------------- */

static int simai_add_name(const struct simai_reading *reading, const char *text, uint32_t *name_out)
{
    return lull_string_set_add(reading->workload->names, text, name_out,
                               lull_lines_name(reading->lines), reading->err);
}

/* Reads a collective like ALLREDUCE, or one with its group, like ALLGATHER_DP_EP. */
static int simai_read_collective(const struct simai_reading *reading, const char *word,
                                 struct lull_simai_work *work)
{
    static const struct {
        const char *name;
        enum lull_chakra_collective collective;
    } known[] = {{"NONE", LULL_CHAKRA_UNTOLD},
                 {"ALLREDUCE", LULL_CHAKRA_ALL_REDUCE},
                 {"ALLGATHER", LULL_CHAKRA_ALL_GATHER},
                 {"REDUCESCATTER", LULL_CHAKRA_REDUCE_SCATTER},
                 {"ALLTOALL", LULL_CHAKRA_ALL_TO_ALL}};
    const size_t length = strcspn(word, "_");

    work->group = UINT32_MAX;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) != length || strncmp(known[i].name, word, length) != 0)
            continue;
        work->collective = known[i].collective;
        return word[length] == '\0' ? 0 : simai_add_name(reading, word + length + 1, &work->group);
    }
    return simai_refuse(reading,
                        "a collective is neither NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER nor "
                        "ALLTOALL");
}

static int read_work(const struct simai_reading *reading, char **rest, struct lull_simai_work *work)
{
    int rc;

    if (lull_text_parse_int(simai_take_word(rest), 0, MAX, &work->compute_ns) < 0)
        return simai_refuse(reading, "there is no time from 0 on where one should stand");
    rc = simai_read_collective(reading, simai_take_word(rest), work);
    if (rc < 0)
        return rc;
    if (lull_text_parse_int(simai_take_word(rest), 0, MAX, &work->size_bytes) < 0)
        return simai_refuse(reading, "there is no number of bytes where one should stand");
    return 0;
}

static int read_layer(const struct simai_reading *reading)
{
    struct lull_simai_workload *const workload = reading->workload;
    struct lull_simai_layer layer = {0};
    char *rest = NULL;
    int64_t unused;
    int rc = next_line(reading, &rest);

    if (rc < 0)
        return rc;
    rc = simai_add_name(reading, simai_take_word(&rest), &layer.name);
    if (rc < 0)
        return rc;
    if (lull_text_parse_int(simai_take_word(&rest), INT64_MIN, INT64_MAX, &unused) < 0)
        return simai_refuse(reading, "there is no number after the layer's name");
    for (int part = 0; part < LULL_SIMAI_PARTS; part++) {
        rc = read_work(reading, &rest, &layer.parts[part]);
        if (rc < 0)
            return rc;
    }
    if (lull_text_parse_int(simai_take_word(&rest), 0, MAX, &unused) < 0 ||
        simai_take_word(&rest)[0] != '\0')
        return simai_refuse(reading, "a layer does not end with one delay");
    return lull_trace_append(&workload->layers, &workload->count, &layer, sizeof(layer),
                             lull_lines_name(reading->lines), reading->err);
}

/* Only blank lines may follow the last layer. */
static int simai_read_all(const struct simai_reading *reading)
{
    size_t count = 0;
    char *line = NULL;
    int rc = simai_read_header(reading);

    if (rc < 0)
        return rc;
    rc = simai_read_count(reading, &count);
    while (rc >= 0 && reading->workload->count < count)
        rc = read_layer(reading);
    while (rc >= 0 && (rc = lull_lines_next(reading->lines, &line, reading->err)) > 0)
        if (simai_take_word(&line)[0] != '\0')
            return simai_refuse(reading, "there are more layers than the second line says");
    return rc;
}

int lull_simai_read(const char *path, struct lull_simai_workload *workload_out,
                    struct lull_error *err)
{
    struct simai_reading reading = {.workload = workload_out, .err = err};
    int rc;

    *workload_out = (struct lull_simai_workload){.names = lull_string_set_create()};
    if (workload_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its names", path);
    rc = lull_lines_open(path, &reading.lines, err);
    if (rc >= 0)
        rc = simai_read_all(&reading);
    lull_lines_close(reading.lines);
    if (rc < 0)
        lull_simai_fini(workload_out);
    return rc;
}

void lull_simai_fini(struct lull_simai_workload *workload)
{
    free(workload->layers);
    lull_string_set_destroy(workload->names);
    *workload = (struct lull_simai_workload){0};
}

const char *lull_simai_name(const struct lull_simai_workload *workload, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(workload->names, name);
}
