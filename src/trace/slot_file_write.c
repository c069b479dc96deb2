/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/slot_file.h"

static void write_point(const struct lull_slot_point *point, FILE *out)
{
    fprintf(out,
            "{\"type\":\"%u\",\"gpus\":%u,\"slots\":%u,\"energy_j\":%.17g,\"first\":%u,\"last\":%u",
            point->type, point->gpus, point->slots, point->cost_j, point->first, point->last);
    if (point->delay_j > 0.0)
        fprintf(out, ",\"delay_j\":%.17g", point->delay_j);
    if (point->power_w > 0)
        fprintf(out, ",\"power_w\":%u", point->power_w);
    fputc('}', out);
}

void lull_slot_file_write(const struct lull_slot_problem *problem, double slot_s, FILE *out)
{
    fprintf(out, "{\"slots\":%u,\"types\":[", problem->slots);
    for (uint32_t i = 0; i < problem->type_count; i++)
        fprintf(out, "%s{\"name\":\"%u\",\"gpus\":%u}", i > 0 ? "," : "", i, problem->gpus[i]);
    fputc(']', out);
    if (slot_s > 0.0)
        fprintf(out, ",\"slot_s\":%.17g", slot_s);
    if (problem->cap_w != LULL_SLOTS_UNCAPPED)
        fprintf(out, ",\"cap_w\":%lld", (long long)problem->cap_w);
    fputs("}\n", out);
    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];

        fprintf(out, "{\"job\":\"%zu\",", i);
        if (!isinf(job->reject_j))
            fprintf(out, "\"value_j\":%.17g,", job->reject_j);
        fputs("\"modes\":[", out);
        for (uint32_t m = 0; m < job->point_count; m++) {
            if (m > 0)
                fputc(',', out);
            write_point(&job->points[m], out);
        }
        fputs("]}\n", out);
    }
}
