/* The hangs of a run, for report.json. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "governor/report/report_fields.h"
#include "governor/report/report_parts.h"
#include "governor/run/run_hang.h"

static double hang_report_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

static json_t *known_number(int32_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

static json_t *hang_report_rank(const struct lull_run_hang_rank *rank)
{
    json_t *object = json_object();

    lull_field_json(object, "rank", known_number(rank->rank));
    lull_field_integer(object, "pid", rank->pid);
    lull_field_json(object, "gpu", known_number(rank->gpu));
    lull_field_text(object, "process", lull_run_hang_process_text(rank->process));
    lull_field_text(object, "last_call", rank->call[0] != '\0' ? rank->call : NULL);
    lull_field_number(object, "last_call_s", rank->call_s);
    lull_field_text(object, "section", rank->section[0] != '\0' ? rank->section : NULL);
    return object;
}

static json_t *hang_report_record(const struct lull_run_hangs *hangs,
                                  const struct lull_run_hang_record *record)
{
    json_t *object = json_object();
    json_t *missing = json_array();

    for (uint32_t i = 0; i < record->missing_count && i < LULL_RUN_HANG_MISSING; i++)
        json_array_append_new(missing, hang_report_rank(&record->missing[i]));
    lull_field_text(object, "kind", lull_run_hang_kind_text(record->kind));
    lull_field_number(object, "begin_s", hang_report_seconds(hangs->begin_ns, record->since_ns));
    lull_field_number(object, "reported_s",
                      hang_report_seconds(hangs->begin_ns, record->reported_ns));
    lull_field_known(object, "end_s", hang_report_seconds(hangs->begin_ns, record->end_ns),
                     record->end_ns != 0);
    lull_field_text(object, "call", record->call);
    lull_field_integer(object, "waiting_ranks", record->waiting_count);
    lull_field_integer(object, "missing_ranks", record->missing_count);
    lull_field_json(object, "missing", missing);
    lull_field_text(object, "sentence", record->text);
    return object;
}

json_t *lull_hang_report_json(const struct lull_run_hangs *hangs)
{
    json_t *records = json_array();

    for (uint64_t i = 0; i < hangs->count && i < LULL_RUN_HANGS_KEPT; i++)
        json_array_append_new(records, hang_report_record(hangs, &hangs->records[i]));
    return records;
}
