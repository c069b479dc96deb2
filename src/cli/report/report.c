/*
 * `lull report`: the page of one or several runs. SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/shared/command.h"
#include "cli/report/page.h"
#include "governor/run/run.h"

struct report_arguments {
    const char *output;
};

static const struct lull_option rows[] = {
    LULL_VALUE("output", "FILE", TEXT, struct report_arguments, output,
               "Write the page to this file.", .hint = LULL_OPTION_FILE,
               .otherwise = "report.html in the folder of the run, or, of several runs, here"),
    {0},
};

/* ---- the last run ------------------------------------------------------------------------ */

static bool report_command_is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Finds the folder whose report was written last. Errors: -ENOENT there is none. */
static int find_last(char *path_out, size_t size, struct lull_error *err)
{
    DIR *const folder = opendir(LULL_RUN_REPORTS);
    struct timespec last = {0};
    const struct dirent *entry;

    path_out[0] = '\0';
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char file[PATH_MAX];
        struct stat info;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), LULL_RUN_REPORTS "/%s/report.json", entry->d_name);
        if (stat(file, &info) < 0 ||
            (path_out[0] != '\0' && report_command_is_before(&info.st_mtim, &last)))
            continue;
        last = info.st_mtim;
        snprintf(path_out, size, LULL_RUN_REPORTS "/%s", entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    if (path_out[0] != '\0')
        return 0;
    return lull_error_set(err, -ENOENT,
                          "there is no run in " LULL_RUN_REPORTS
                          " here; pass the folder of one, as given to lull run --report");
}

/* ---- the command ------------------------------------------------------------------------- */

/* Chooses the page's path if no file is named: in the folder of the only run, else in the current
 * directory. */
static void choose_output(const char *run, uint32_t count, char *path_out, size_t size)
{
    struct stat info;

    snprintf(path_out, size, "report.html");
    if (count == 1 && stat(run, &info) == 0 && S_ISDIR(info.st_mode))
        snprintf(path_out, size, "%s/report.html", run);
}

static int write_page(const char *const *runs, uint32_t count, const char *output,
                      struct lull_error *err)
{
    struct lull_report_document documents[LULL_REPORT_MAX_RUNS];
    struct lull_report_page page = {documents, 0};
    int result = 0;

    for (; result == 0 && page.count < count; page.count += result == 0)
        result = lull_report_document_open(runs[page.count], &documents[page.count], err);
    if (result == 0)
        result = lull_file_write_with(output, lull_report_page_write, &page, err);
    while (page.count > 0)
        lull_report_document_close(&documents[--page.count]);
    return result;
}

static int report_command_run(void *options, const struct lull_operands *operands)
{
    const struct report_arguments *const arguments = options;
    const char *const *runs = (const char *const *)operands->words;
    uint32_t count = operands->count;
    struct lull_error err = {0};
    char output[PATH_MAX];
    char last[PATH_MAX];
    const char *found = last;
    int result = 0;

    if (count == 0) {
        result = find_last(last, sizeof(last), &err);
        runs = &found;
        count = 1;
    }
    if (result < 0)
        return lull_cli_fail("report", &err);
    choose_output(runs[0], count, output, sizeof(output));
    if (arguments->output != NULL)
        snprintf(output, sizeof(output), "%s", arguments->output);
    result = write_page(runs, count, output, &err);
    if (result < 0)
        return lull_cli_fail("report", &err);
    if (strcmp(output, "/dev/stdout") != 0)
        printf("%s\n", output);
    return LULL_EXIT_OK;
}

const struct lull_program_command lull_report_command = {
    .name = "report",
    .summary = "write an HTML page about one or more runs",
    .arguments = "[RUN...]",
    .about = "Writes one HTML page about a run: verdict, energy and time with their bounds, "
             "savings at other tolerances and of each lever, the last iterations, what was not "
             "done, and the source of each figure. The page needs no network and no script. RUN is "
             "the folder of a run or its report.json; default: the last run in lull-report. "
             "Several runs are shown side by side.",
    .after = "Examples:\n"
             "  lull report\n"
             "  lull report out\n"
             "  lull report --output both.html before after",
    .tables = {{rows, 0}},
    .operands = {.most = LULL_REPORT_MAX_RUNS},
    .size = sizeof(struct report_arguments),
    .run = report_command_run,
};
