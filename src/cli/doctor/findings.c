/* A list of findings, and the lines that fix them. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor/judge_parts.h"

const char *lull_doctor_level_name(enum lull_doctor_level level)
{
    static const char *const names[] = {[LULL_DOCTOR_OK] = "ok",
                                        [LULL_DOCTOR_WARNING] = "warning",
                                        [LULL_DOCTOR_PROBLEM] = "problem"};

    return names[level];
}

struct lull_doctor_finding *lull_doctor_add(struct lull_doctor_findings *findings,
                                            const char *check, enum lull_doctor_level level,
                                            const char *format, ...)
{
    struct lull_doctor_finding *finding;
    va_list arguments;

    /* Each check adds few findings, and equal ones of GPUs are joined. */
    assert(findings->count < LULL_DOCTOR_MAX_FINDINGS);
    finding = &findings->items[findings->count++];
    *finding = (struct lull_doctor_finding){.check = check, .level = level};
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof(finding->text), format, arguments);
    va_end(arguments);
    return finding;
}

void lull_doctor_fix(struct lull_doctor_finding *finding, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(finding->fix, sizeof(finding->fix), format, arguments);
    va_end(arguments);
    finding->is_command = true;
}

void lull_doctor_advise(struct lull_doctor_finding *finding, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(finding->fix, sizeof(finding->fix), format, arguments);
    va_end(arguments);
    finding->is_command = false;
}

void lull_doctor_of_gpu(struct lull_doctor_findings *findings, uint32_t gpu)
{
    struct lull_doctor_finding *const latest = &findings->items[findings->count - 1];

    assert(findings->count > 0 && gpu < LULL_DEVICE_MAX_GPUS);
    latest->gpus = UINT64_C(1) << gpu;
    for (struct lull_doctor_finding *other = findings->items; other < latest; other++) {
        if (other->gpus == 0 || strcmp(other->check, latest->check) != 0 ||
            strcmp(other->text, latest->text) != 0 || strcmp(other->fix, latest->fix) != 0)
            continue;
        other->gpus |= latest->gpus;
        findings->count--;
        return;
    }
}

uint32_t lull_doctor_count(const struct lull_doctor_findings *findings,
                           enum lull_doctor_level level)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < findings->count; i++)
        count += findings->items[i].level == level;
    return count;
}
