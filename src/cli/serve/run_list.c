/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/run_list.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/printable.h"
#include "cli/serve/request.h"
#include "governor/report/report_fields.h"

struct run {
    char name[256];
    struct timespec changed; /* when its report was written */
    json_t *summary;         /* NULL: it was not read, or is no report */
};

struct lull_serve_run_list {
    const char *folder;
    uint32_t count; /* of runs */
    struct run runs[LULL_SERVE_RUNS];
};

struct lull_serve_run_list *lull_serve_run_list_create(const char *folder)
{
    struct lull_serve_run_list *const list = calloc(1, sizeof(*list));

    if (list != NULL)
        list->folder = folder;
    return list;
}

static void run_list_forget(struct run *runs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        json_decref(runs[i].summary);
}

void lull_serve_run_list_destroy(struct lull_serve_run_list *list)
{
    if (list == NULL)
        return;
    run_list_forget(list->runs, list->count);
    free(list);
}

/* ---- one run ----------------------------------------------------------------------------- */

int lull_serve_run_open(const char *folder, const char *name,
                        struct lull_report_document *document_out, struct lull_error *err)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    int result;

    snprintf(path, sizeof(path), "%s/%s/report.json", folder, name);
    result = lull_path_read(path, LULL_SERVE_MAX_REPORT, LULL_PATH_LOOK_MS, &text, &size, err);
    if (result == -EFBIG)
        return lull_error_set(err, result, "%s: too large to be shown; use lull report", name);
    if (result == 0)
        result = lull_report_document_parse(text, size, path, document_out, err);
    free(text);
    if (result == 0)
        snprintf(document_out->name, sizeof(document_out->name), "%s", name);
    return result;
}

/* Copies a figure of the verdict; what is not known is null. */
static void run_list_copy(json_t *summary, const json_t *from, const char *key)
{
    lull_field_number(summary, key, lull_report_number(from, key));
}

/* Sets where the run's page is. The name in JSON may have lost bytes that are not UTF-8. */
static void run_list_set_address(json_t *summary, const char *name)
{
    char *const part = lull_printable_copy(LULL_PRINTABLE_ADDRESS, name, strlen(name));
    char address[sizeof("/runs/") + 3 * sizeof(((struct run *)NULL)->name)];

    snprintf(address, sizeof(address), "/runs/%s", part != NULL ? part : "");
    lull_field_text(summary, "address", part != NULL ? address : NULL);
    free(part);
}

/* Makes the summary of a run; it has none if its report cannot be read. Errors: -ETIMEDOUT. */
static int run_list_summarize(const struct lull_serve_run_list *list, struct run *run,
                              struct lull_error *err)
{
    struct lull_report_document document = {0};
    const json_t *verdict;
    json_t *summary;
    const int result = lull_serve_run_open(list->folder, run->name, &document, err);

    if (result < 0)
        return result == -ETIMEDOUT ? result : 0;
    verdict = lull_report_at(document.root, "verdict");
    summary = json_object();
    lull_field_text(summary, "name", run->name);
    run_list_set_address(summary, run->name);
    lull_field_number(summary, "time_s",
                      (double)run->changed.tv_sec + (double)run->changed.tv_nsec * 1e-9);
    lull_field_text(summary, "sentence", lull_report_text(verdict, "sentence"));
    run_list_copy(summary, verdict, "saving_ratio");
    run_list_copy(summary, verdict, "saving_low_ratio");
    run_list_copy(summary, verdict, "saving_high_ratio");
    lull_field_text(summary, "saving_reason", lull_report_text(verdict, "saving_reason"));
    run_list_copy(summary, verdict, "slowdown_ratio");
    run_list_copy(summary, verdict, "slowdown_upper_ratio");
    run_list_copy(summary, verdict, "slowdown_allowed_ratio");
    lull_field_text(summary, "slowdown_reason", lull_report_text(verdict, "slowdown_reason"));
    run_list_copy(summary, lull_report_at(document.root, "cost"), "energy_kwh");
    lull_field_number(summary, "wall_s", lull_report_number(document.root, "managed_wall_s"));
    lull_field_integer(summary, "gpus",
                       (json_int_t)lull_report_count(lull_report_at(document.root, "gpus")));
    lull_report_document_close(&document);
    run->summary = summary;
    return 0;
}

/* ---- the folder -------------------------------------------------------------------------- */

static bool is_after(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Puts a run in its place among the newest; returns how many there are. */
static uint32_t run_list_insert(struct run *runs, uint32_t count, const struct run *run)
{
    uint32_t at = count;

    while (at > 0 && is_after(&run->changed, &runs[at - 1].changed))
        at--;
    if (at == LULL_SERVE_RUNS)
        return count;
    if (count == LULL_SERVE_RUNS)
        count--;
    memmove(&runs[at + 1], &runs[at], (count - at) * sizeof(runs[0]));
    runs[at] = *run;
    return count + 1;
}

struct newest {
    const char *path;
    uint32_t count;
    struct run runs[LULL_SERVE_RUNS];
};

static int find_newest(void *context, struct lull_error *err)
{
    struct newest *const newest = context;
    const char *const path = newest->path;
    DIR *const folder = opendir(path);
    const struct dirent *entry;
    uint32_t looked = 0;
    uint32_t count = 0;

    (void)err; /* a folder that is not there has no runs */

    while (folder != NULL && looked < LULL_SERVE_MAX_FOLDERS && (entry = readdir(folder)) != NULL) {
        char file[PATH_MAX];
        struct stat info;
        struct run run = {0};

        if (!lull_serve_is_run_name(entry->d_name))
            continue;
        looked++;
        snprintf(file, sizeof(file), "%s/%s/report.json", path, entry->d_name);
        if (stat(file, &info) < 0 || !S_ISREG(info.st_mode))
            continue;
        snprintf(run.name, sizeof(run.name), "%s", entry->d_name);
        run.changed = info.st_mtim;
        count = run_list_insert(newest->runs, count, &run);
    }
    if (folder != NULL)
        closedir(folder);
    newest->count = count;
    return 0;
}

/* Takes the summary that is known of a run, if its report has not changed, else makes it. Errors:
 * -ETIMEDOUT. */
static int run_list_recall(const struct lull_serve_run_list *list, struct run *run,
                           struct lull_error *err)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->runs[i].name, run->name) == 0 &&
            !is_after(&run->changed, &list->runs[i].changed) &&
            !is_after(&list->runs[i].changed, &run->changed)) {
            run->summary = json_incref(list->runs[i].summary);
            return 0;
        }
    return run_list_summarize(list, run, err);
}

int lull_serve_run_list_look(struct lull_serve_run_list *list, json_t **runs_out,
                             struct lull_error *err)
{
    struct newest newest = {.path = list->folder};
    int result = 0;

    if (list->folder != NULL)
        result = lull_path_do(list->folder, LULL_PATH_LOOK_MS, find_newest, &newest, sizeof(newest),
                              err);
    for (uint32_t i = 0; i < newest.count && result == 0; i++)
        result = run_list_recall(list, &newest.runs[i], err);
    if (result < 0) {
        run_list_forget(newest.runs, newest.count);
        return result;
    }
    *runs_out = json_array();
    for (uint32_t i = 0; i < newest.count; i++)
        if (newest.runs[i].summary != NULL)
            json_array_append_new(*runs_out, json_deep_copy(newest.runs[i].summary));
    run_list_forget(list->runs, list->count);
    memcpy(list->runs, newest.runs, sizeof(list->runs));
    list->count = newest.count;
    return 0;
}
