/* lull doctor: what keeps Lull from managing this node, and the line that fixes it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/doctor/gather.h"
#include "cli/doctor/judge.h"
#include "cli/shared/command.h"
#include "cli/shared/stop_signals.h"
#include "governor/report/report_fields.h"

enum { LOOK_MS = 100, SIGNAL_STATUS = 128 };

struct doctor_arguments {
    bool is_json;
    bool is_watching;
    int64_t interval_ns;
    struct lull_doctor_sources sources;
};

/* ---- text -------------------------------------------------------------------------------- */

static void finding_print_gpus(uint64_t gpus)
{
    if (gpus == 0)
        return;
    printf((gpus & (gpus - 1)) == 0 ? "GPU" : "GPUs");
    for (uint64_t left = gpus; left != 0; left &= left - 1)
        printf("%s %d", left == gpus ? "" : ",", __builtin_ctzll(left));
    printf(": ");
}

static void finding_print(const struct lull_doctor_finding *finding, const char *word)
{
    printf("%-8s %s: ", word, finding->check);
    finding_print_gpus(finding->gpus);
    printf("%s\n", finding->text);
    if (finding->fix[0] != '\0')
        printf("         %s: %s\n", finding->is_command ? "fix" : "advice", finding->fix);
}

static void doctor_print_total(const struct lull_doctor_findings *findings)
{
    const uint32_t problems = lull_doctor_count(findings, LULL_DOCTOR_PROBLEM);
    const uint32_t warnings = lull_doctor_count(findings, LULL_DOCTOR_WARNING);

    printf("%" PRIu32 " problem%s, %" PRIu32 " warning%s\n", problems, problems == 1 ? "" : "s",
           warnings, warnings == 1 ? "" : "s");
}

static void doctor_print(const struct lull_doctor_findings *findings)
{
    for (int level = LULL_DOCTOR_PROBLEM; level >= LULL_DOCTOR_OK; level--)
        for (uint32_t i = 0; i < findings->count; i++)
            if ((int)findings->items[i].level == level)
                finding_print(&findings->items[i],
                              lull_doctor_level_name(findings->items[i].level));
    doctor_print_total(findings);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static json_t *finding_as_json(const struct lull_doctor_finding *finding)
{
    json_t *const object = json_object();
    json_t *const gpus = json_array();

    for (uint64_t left = finding->gpus; left != 0; left &= left - 1)
        json_array_append_new(gpus, json_integer(__builtin_ctzll(left)));
    lull_field_text(object, "check", finding->check);
    lull_field_text(object, "level", lull_doctor_level_name(finding->level));
    lull_field_json(object, "gpus", gpus);
    lull_field_text(object, "text", finding->text);
    lull_field_text(object, "fix",
                    finding->fix[0] != '\0' && finding->is_command ? finding->fix : NULL);
    lull_field_text(object, "advice",
                    finding->fix[0] != '\0' && !finding->is_command ? finding->fix : NULL);
    return object;
}

static int doctor_print_json(const struct lull_doctor_findings *findings)
{
    json_t *const document = json_object();
    json_t *const array = json_array();

    for (uint32_t i = 0; i < findings->count; i++)
        json_array_append_new(array, finding_as_json(&findings->items[i]));
    lull_field_boolean(document, "can_manage",
                       lull_doctor_count(findings, LULL_DOCTOR_PROBLEM) == 0);
    lull_field_integer(document, "problems", lull_doctor_count(findings, LULL_DOCTOR_PROBLEM));
    lull_field_integer(document, "warnings", lull_doctor_count(findings, LULL_DOCTOR_WARNING));
    lull_field_json(document, "findings", array);
    return lull_cli_print_json(document, 0);
}

/* ---- --watch ----------------------------------------------------------------------------- */

static bool has_finding(const struct lull_doctor_findings *findings,
                        const struct lull_doctor_finding *finding)
{
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct lull_doctor_finding *const other = &findings->items[i];

        if (other->level == finding->level && other->gpus == finding->gpus &&
            strcmp(other->check, finding->check) == 0 && strcmp(other->text, finding->text) == 0)
            return true;
    }
    return false;
}

/* Returns whether a list has a finding that the other one lacks. */
static bool has_more(const struct lull_doctor_findings *findings,
                     const struct lull_doctor_findings *than)
{
    for (uint32_t i = 0; i < findings->count; i++)
        if (!has_finding(than, &findings->items[i]))
            return true;
    return false;
}

static void doctor_print_time(void)
{
    const time_t seconds = time(NULL);
    struct tm local;
    char stamp[32] = "";

    if (localtime_r(&seconds, &local) != NULL)
        strftime(stamp, sizeof(stamp), "%F %T", &local);
    puts(stamp);
}

static void doctor_print_changes(const struct lull_doctor_findings *before,
                                 const struct lull_doctor_findings *now)
{
    if (!has_more(before, now) && !has_more(now, before))
        return;
    doctor_print_time();
    for (uint32_t i = 0; i < before->count; i++) {
        struct lull_doctor_finding gone = before->items[i];

        gone.fix[0] = '\0';
        if (gone.level != LULL_DOCTOR_OK && !has_finding(now, &gone))
            finding_print(&gone, "gone");
    }
    for (uint32_t i = 0; i < now->count; i++)
        if (!has_finding(before, &now->items[i]))
            finding_print(&now->items[i], lull_doctor_level_name(now->items[i].level));
    doctor_print_total(now);
}

static void doctor_examine(const struct lull_doctor_sources *sources,
                           struct lull_doctor_facts *facts, struct lull_doctor_findings *findings)
{
    lull_doctor_gather(sources, facts);
    lull_doctor_judge(facts, findings);
}

/* Prints what changes until a signal comes. Returns the signal. */
static int doctor_watch(const struct doctor_arguments *arguments, struct lull_doctor_facts *facts,
                        struct lull_doctor_findings findings[2])
{
    struct lull_stop_signals stop;
    uint32_t latest = 0;

    lull_stop_signals_begin(&stop);
    while (!lull_is_stopped(&stop)) {
        const int64_t until_ns = lull_now_ns() + arguments->interval_ns;

        fflush(stdout);
        while (lull_now_ns() < until_ns && !lull_is_stopped(&stop))
            lull_sleep_until_ns(lull_now_ns() + LOOK_MS * LULL_NS_PER_MS);
        if (lull_is_stopped(&stop))
            break;
        doctor_examine(&arguments->sources, facts, &findings[1 - latest]);
        doctor_print_changes(&findings[latest], &findings[1 - latest]);
        latest = 1 - latest;
    }
    return stop.stopped_by;
}

/* ---- the command ------------------------------------------------------------------------- */

static int doctor_command_run(void *options, const struct lull_operands *operands)
{
    const struct doctor_arguments *const arguments = options;
    struct lull_doctor_findings *const findings = calloc(2, sizeof(*findings));
    struct lull_doctor_facts *const facts = malloc(sizeof(*facts));
    int status = LULL_EXIT_FAILED;

    (void)operands;
    if (findings == NULL || facts == NULL) {
        const struct lull_error err = {-ENOMEM, "no memory for the findings"};

        status = lull_cli_fail("doctor", &err);
    } else {
        doctor_examine(&arguments->sources, facts, &findings[0]);
        if (lull_doctor_count(&findings[0], LULL_DOCTOR_PROBLEM) == 0)
            status = LULL_EXIT_OK;
        if (!arguments->is_json)
            doctor_print(&findings[0]);
        else if (doctor_print_json(&findings[0]) < 0)
            status = LULL_EXIT_FAILED;
        if (arguments->is_watching)
            status = SIGNAL_STATUS + doctor_watch(arguments, facts, findings);
    }
    free(findings);
    free(facts);
    return status;
}

static const struct lull_option rows[] = {
    LULL_JSON_ROW(struct doctor_arguments, is_json),
    LULL_VALUE("watch", "S", TIME, struct doctor_arguments, interval_ns,
               "Check again after this many seconds, until a signal comes, and print only what "
               "has changed.",
               .least = 1, .most = 86400, .excludes = "json",
               LULL_GIVEN(struct doctor_arguments, is_watching)),
    LULL_VALUE("root", "DIR", TEXT, struct doctor_arguments, sources.root,
               "Read /proc, /sys, /dev and /etc below this directory, such as a mount of the "
               "host's root in a container.",
               .hint = LULL_OPTION_FOLDER, .default_value = ""),
    LULL_CLI_RUNTIME_DIR_ROW(struct doctor_arguments, sources.runtime_dir),
    {0},
};

const struct lull_program_command lull_doctor_command = {
    .name = "doctor",
    .summary = "check what keeps Lull from managing this node, and how to fix it",
    .about =
        "Checks the driver, the GPUs, lulld and its policy for this user, the probes, other "
        "programs that set clocks, namespaces, batch systems, the kernel and RAPL. Each "
        "problem and warning is followed by one line that fixes it. A problem keeps Lull "
        "from managing a GPU; a warning costs part of the measurements or savings. Nothing is "
        "changed. Each free GPU is leased from lulld for a moment, to learn whether the policy "
        "permits it. The exit status is 1 if there is a problem.",
    .tables = {{rows, 0}},
    .size = sizeof(struct doctor_arguments),
    .run = doctor_command_run,
};
