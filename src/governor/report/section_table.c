/*
 * Prints what was decided for the steady point and the sections of a GPU. Sections for which the
 * same was decided are one line, however many there are. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/minmax.h"
#include "governor/report/report_parts.h"
#include "governor/report/section_text.h"

/* Sections of one kind that share one line of the table. */
struct section_group {
    struct lull_section_text text; /* of the first */
    bool has_reason;               /* in text; else it depends on how long its sections are */
    uint32_t mhz;
    uint32_t count;
    uint64_t occurrences;
    double length_ms; /* sum over occurrences */
    double min_ms;    /* range of how long they are exposed */
    double max_ms;
};

/* The clock at which the sections of a target run: that of the steady point, or below it. */
static uint32_t section_mhz(const struct lull_report *report, uint32_t gpu,
                            const struct lull_target *target)
{
    const struct lull_target *steady =
        lull_controller_look(lull_control_controller(report->managed)).steady;

    return lull_min_u32(lull_report_kept_mhz(report, gpu, target),
                        lull_report_kept_mhz(report, gpu, steady));
}

static void section_table_print_line(uint32_t count, const char *name, double length_ms,
                                     uint32_t mhz, FILE *out)
{
    char kind[64];
    char length[24] = "";
    char clock[24] = "";

    snprintf(kind, sizeof(kind), "%.40s", name);
    if (count > 1)
        snprintf(kind, sizeof(kind), "%" PRIu32 " x %.40s", count, name);
    if (isfinite(length_ms))
        snprintf(length, sizeof(length), "%.1f ms", length_ms);
    if (mhz > 0)
        snprintf(clock, sizeof(clock), "%" PRIu32 " MHz", mhz);
    fprintf(out, "    %-24s %10s %9s  ", kind, length, clock);
}

static void section_table_print_steady(const struct lull_report *report, uint32_t gpu, FILE *out)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *steady = lull_controller_look(controller).steady;
    const struct lull_track *track = lull_controller_look_gpu(controller, gpu).track;

    if (steady == NULL)
        return;
    section_table_print_line(1, "whole iterations",
                             lull_track_phase(track) == LULL_TRACK_KNOWN
                                 ? lull_track_iteration_ms(track)->mean
                                 : (double)NAN,
                             lull_report_kept_mhz(report, gpu, steady), out);
    fprintf(out, "%s: %s\n", lull_gpu_verdict_text(report->managed, gpu, steady),
            lull_gpu_reason_text(report->managed, gpu, steady));
}

/* Returns whether a section belongs on the line of a group. */
static bool section_table_fits(const struct section_group *group,
                               const struct section_group *section)
{
    return strcmp(group->text.name, section->text.name) == 0 &&
           group->text.verdict == section->text.verdict && group->mhz == section->mhz &&
           group->has_reason == section->has_reason &&
           (!section->has_reason || strcmp(group->text.reason, section->text.reason) == 0);
}

static struct section_group section_table_describe(const struct lull_report *report, uint32_t gpu,
                                                   uint32_t index)
{
    const struct lull_controller *controller = lull_control_controller(report->managed);
    const struct lull_target *target = lull_controller_target_of(controller, gpu, index);
    uint32_t count;
    const struct lull_section *section =
        &lull_track_sections(lull_controller_look_gpu(controller, gpu).track, &count)[index];
    struct section_group group = {
        .has_reason = target != NULL || lull_gpu_alone_text(report->managed, gpu) != NULL,
        .mhz = section_mhz(report, gpu, target),
        .count = 1,
        .occurrences = section->length_ms.count,
        .length_ms = section->length_ms.mean * (double)section->length_ms.count,
        .min_ms = section->exposed_ms.mean,
        .max_ms = section->exposed_ms.mean,
    };

    lull_section_describe(report->managed, gpu, index, &group.text);
    return group;
}

/* Adds a section to the group that it fits, or as a new one; returns how many there are. */
static uint32_t section_table_add(struct section_group *groups, uint32_t count,
                                  const struct section_group *section)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!section_table_fits(&groups[i], section))
            continue;
        groups[i].count++;
        groups[i].occurrences += section->occurrences;
        groups[i].length_ms += section->length_ms;
        groups[i].min_ms = fmin(groups[i].min_ms, section->min_ms);
        groups[i].max_ms = fmax(groups[i].max_ms, section->max_ms);
        return count;
    }
    groups[count] = *section;
    return count + 1;
}

static void print_group(const struct lull_report *report, uint32_t gpu,
                        const struct section_group *group, FILE *out)
{
    char reason[sizeof(group->text.reason)];

    if (group->has_reason)
        snprintf(reason, sizeof(reason), "%s", group->text.reason);
    else
        lull_section_describe_untargeted(report->managed, gpu, group->min_ms, group->max_ms, reason,
                                         sizeof(reason));
    section_table_print_line(group->count, lull_printable(group->text.name).text,
                             group->occurrences > 0 ? group->length_ms / (double)group->occurrences
                                                    : (double)NAN,
                             group->mhz, out);
    fprintf(out, "%s: %s\n", group->text.verdict, reason);
}

void lull_section_table_print(const struct lull_report *report, uint32_t gpu, FILE *out)
{
    struct section_group *groups;
    uint32_t group_count = 0;
    uint32_t count;

    lull_track_sections(
        lull_controller_look_gpu(lull_control_controller(report->managed), gpu).track, &count);
    section_table_print_steady(report, gpu, out);
    groups = calloc(count, sizeof(*groups));
    if (groups == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct section_group section = section_table_describe(report, gpu, i);

        group_count = section_table_add(groups, group_count, &section);
    }
    for (uint32_t i = 0; i < group_count; i++)
        print_group(report, gpu, &groups[i], out);
    free(groups);
}
