/*
 * lull-schedule: schedules the jobs of a Slurm cluster that request it. It is a program of its own,
 * for libslurm is under the GPL. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/state_directory.h"
#include "base/log.h"
#include "base/program.h"
#include "cluster/slurm/schedule/report.h"
#include "cluster/slurm/schedule/round.h"
#include "cluster/trace/cluster_tables.h"

struct schedule_options {
    const struct lull_cluster_policy_ops *policy;
    double knob;
    bool has_knob;
    const char *points;
    double cap_w;
    const char *price;
    const char *carbon;
    const char *partition;
    int64_t interval_ns;
    int64_t patience_ns;
    const char *state;
    bool is_once;
    bool is_dry;
    bool is_json;
    uint32_t explained; /* 0: none */
    uint32_t held;      /* 0: none */
    const char *gpus;
    const char *lull;
    const char *runtime_dir;
};

/* Working data of a run. */
struct schedule_work {
    const struct schedule_options *options;
    struct lull_cluster_policy_ops policy;
    struct lull_point_table *table;  /* NULL: none was given */
    struct lull_tariff_table tariff; /* empty: none was given */
    struct lull_file_stamp tariff_stamp;
    struct lull_slurm *slurm;
    struct lull_past past;
    char state[512];
};

/* ---- options ------------------------------------------------------------------------------- */

static const char *scheduler_policy_name(uint32_t index)
{
    const struct lull_cluster_policy_ops *const *const all = lull_cluster_policy_all();
    uint32_t count = 0;

    while (all[count] != NULL && count < index)
        count++;
    return all[count] != NULL ? all[count]->name : NULL;
}

static int scheduler_parse_policy(const char *text, void *place, struct lull_error *err)
{
    const struct lull_cluster_policy_ops *const policy = lull_cluster_policy_find(text);

    if (policy == NULL)
        return lull_error_set(err, -EINVAL, "no policy for a cluster is called that");
    *(const struct lull_cluster_policy_ops **)place = policy;
    return 0;
}

static void scheduler_print_policies(FILE *out)
{
    const struct lull_cluster_policy_ops *const *const all = lull_cluster_policy_all();

    fputs("\nPolicies:\n", out);
    for (uint32_t i = 0; all[i] != NULL; i++) {
        fprintf(out, "  %s%*s", all[i]->name, 24 - (int)strlen(all[i]->name), "");
        lull_option_print_wrapped(all[i]->summary, 26, 26, out);
        fputc('\n', out);
    }
}

#define OBJECT struct schedule_options
static const struct lull_option rows[] = {
    LULL_GROUP("What is decided"),
    LULL_VALUE("policy", "NAME", OWN, OBJECT, policy, "The policy, one of those below.",
               .parse = scheduler_parse_policy, .word_at = scheduler_policy_name,
               .otherwise = "backfill"),
    LULL_VALUE("knob", "VALUE", NUMBER, OBJECT, knob,
               "Parameter by which the policy trades time for energy, if it has one; see "
               "lull-simulate(1).",
               LULL_GIVEN(OBJECT, has_knob), .least = -1e12, .otherwise = "the policy's default"),
    LULL_VALUE("points", "FILE", TEXT, OBJECT, points,
               "Operating points of jobs by name, and powers of GPUs: JSON, see lull-schedule(1).",
               .hint = LULL_OPTION_FILE, .otherwise = "none: all jobs run at full clocks"),
    LULL_VALUE("power-cap", "W", NUMBER, OBJECT, cap_w,
               "No job starts that could make all GPUs together draw more.", .needs = "points"),
    LULL_VALUE("price", "FILE", TEXT, OBJECT, price,
               "Price of energy, a table time_s,price_per_kwh. Jobs whose deadline permits start "
               "when energy is cheapest.",
               .hint = LULL_OPTION_FILE, .excludes = "carbon",
               .more = "Times are seconds since 1970. The file is read again when it changes."),
    LULL_VALUE("carbon", "FILE", TEXT, OBJECT, carbon,
               "Carbon intensity of energy, a table time_s,g_per_kwh, used in the same way.",
               .hint = LULL_OPTION_FILE),
    LULL_GROUP("How it runs"),
    LULL_VALUE("partition", "NAME", TEXT, OBJECT, partition, "The partition to schedule.",
               .otherwise = "Slurm's default partition"),
    LULL_FLAG("once", OBJECT, is_once, "Process the queue once, then exit."),
    LULL_FLAG("dry-run", OBJECT, is_dry,
              "Read the queue once, and print what would be done without doing it."),
    LULL_VALUE("explain", "JOB", WHOLE, OBJECT, explained,
               "Explain why the job waits and when it will start, or where it was placed and which "
               "alternatives were compared.",
               .least = 1, .excludes = "once|dry-run"),
    LULL_JSON_ROW(OBJECT, is_json),
    LULL_VALUE("interval", "S", TIME, OBJECT, interval_ns,
               "Interval between two reads of the queue.", .default_value = "1", .least = 0.1,
               .most = 3600),
    LULL_VALUE(
        "patience", "S", TIME, OBJECT, patience_ns,
        "A released job that has not started after this time is held again and placed again.",
        .default_value = "15", .least = 1, .most = 86400),
    LULL_VALUE("state", "DIR", TEXT, OBJECT, state, "Directory of the journal for --explain.",
               .hint = LULL_OPTION_FOLDER, .otherwise = "/var/lib/lull as root"),
    LULL_GROUP("For Slurm's plugin, on the nodes"),
    LULL_VALUE("hold", "JOB", WHOLE, OBJECT, held,
               "Hold the GPUs of this node at the clock that was chosen for the job, until the "
               "other end of the socket at descriptor 3 is closed.",
               .least = 1, .needs = "gpus", .excludes = "once|dry-run|explain|json"),
    LULL_VALUE("gpus", "LIST", TEXT, OBJECT, gpus, "The job's GPUs on this node, with commas.",
               .needs = "hold"),
    LULL_VALUE("lull", "PROGRAM", TEXT, OBJECT, lull, "Where lull is.", .hint = LULL_OPTION_FILE,
               .otherwise = "found by its name"),
    LULL_VALUE("runtime-dir", "DIR", TEXT, OBJECT, runtime_dir, "Find lulld in this directory.",
               .hint = LULL_OPTION_FOLDER, .default_value = "/run/lull",
               .environment = "LULL_RUNTIME_DIR"),
    {0},
};

static int scheduler_check(void *place, const struct lull_operands *operands,
                           struct lull_error *err)
{
    struct schedule_options *const options = place;

    (void)operands;
    if (options->is_json && !options->is_once && !options->is_dry && options->explained == 0)
        return lull_error_set(err, -EINVAL,
                              "--json prints one document: give --once, --dry-run or --explain "
                              "with it");
    return 0;
}

/* ---- one look ------------------------------------------------------------------------------ */

/* Write errors are detected at the end of the program. */
static void scheduler_print_json(json_t *document)
{
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
}

static void print_reported(const json_t *reported)
{
    const bool is_dry = json_is_true(json_object_get(reported, "is_dry"));
    const json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(reported, "decisions"), i, entry)
        lull_report_print_decision(entry, is_dry, stdout);
    json_array_foreach(json_object_get(reported, "handed_over"), i, entry)
        printf("job %lld is left to Slurm's own scheduler: %s\n",
               (long long)json_integer_value(json_object_get(entry, "job")),
               json_string_value(json_object_get(entry, "why")));
    json_array_foreach(json_object_get(reported, "held_again"), i, entry)
        printf("job %lld has not started where it was placed; it is placed again\n",
               (long long)json_integer_value(entry));
    fflush(stdout);
}

/* Replaces the tariff if its file has changed. Errors: those of
 * lull_tariff_read; the previous tariff stays in force. */
static int load_tariff(struct schedule_work *work, bool *is_new_out, struct lull_error *err)
{
    const bool is_price = work->options->price != NULL;
    const char *const path = is_price ? work->options->price : work->options->carbon;
    struct lull_tariff_table table;
    int rc;

    *is_new_out = false;
    if (path == NULL ||
        (!lull_file_has_changed(path, &work->tariff_stamp) && work->tariff.tariff.count > 0))
        return 0;
    rc = lull_tariff_read(path, is_price ? LULL_TARIFF_PRICE : LULL_TARIFF_CARBON, &table, err);
    if (rc < 0)
        return rc;
    lull_tariff_fini(&work->tariff);
    work->tariff = table;
    *is_new_out = true;
    return 0;
}

static struct lull_scheduling_rules rules_of(const struct schedule_work *work)
{
    return (struct lull_scheduling_rules){
        .policy = &work->policy,
        .table = work->table,
        .cap_w = work->options->cap_w,
        .tariff = work->tariff.tariff.count > 0 ? &work->tariff.tariff : NULL,
        .past = &work->past,
    };
}

static void scheduler_begin_round(struct schedule_work *work, struct lull_schedule_journal *journal,
                                  struct lull_round *round_out)
{
    *round_out = (struct lull_round){
        .slurm = work->slurm,
        .rules = rules_of(work),
        .journal = journal,
        .past = &work->past,
        .patience_s = work->options->patience_ns / LULL_NS_PER_S,
        .is_pressed = true,
    };
}

static int scheduler_load_history(void *past, const json_t *decision)
{
    return lull_past_add(past, decision);
}

/* Loads earlier decisions from the journal, for policies that learn from them. Without it they
 * start from scratch. */
static void remember_all(struct schedule_work *work)
{
    struct lull_error err = {0};

    if (work->policy.calls->recall != NULL &&
        lull_schedule_journal_recent(work->state, lull_slurm_partition(work->slurm), LULL_PAST_MAX,
                                     scheduler_load_history, &work->past, &err) < 0)
        lull_log(LULL_LOG_WARNING, "schedule",
                 "%s; policy %s does not know what was decided before", err.text,
                 work->policy.name);
}

/* Reads the queue for the first time, and the earlier decisions: the journal is named after
 * the partition, which may have to be read from Slurm. */
static int scheduler_read_first(struct schedule_work *work, const struct lull_queue **queue_out,
                                struct lull_error *err)
{
    bool has_changed;
    const int rc = lull_slurm_read(work->slurm, &has_changed, queue_out, err);

    if (rc == 0)
        remember_all(work);
    return rc;
}

static int scheduler_open_journal(struct schedule_work *work, struct lull_schedule_journal *journal,
                                  struct lull_error *err)
{
    const struct lull_queue *queue;
    const int rc = scheduler_read_first(work, &queue, err);

    if (rc < 0)
        return rc;
    return lull_schedule_journal_open(work->state, lull_slurm_partition(work->slurm), journal, err);
}

static int scheduler_run_once(struct schedule_work *work, struct lull_error *err)
{
    struct lull_schedule_journal journal = {.fd = -1};
    const struct lull_queue *queue;
    struct lull_round round;
    json_t *reported = NULL;
    int rc = work->options->is_dry ? scheduler_read_first(work, &queue, err)
                                   : scheduler_open_journal(work, &journal, err);

    if (rc < 0)
        return rc;
    scheduler_begin_round(work, work->options->is_dry ? NULL : &journal, &round);
    rc = lull_round_run(&round, &reported, err);
    if (rc == 0 && reported == NULL)
        rc = lull_error_set(err, -ENOMEM, "not enough memory for the result");
    if (rc == 0 && work->options->is_json)
        scheduler_print_json(reported);
    else if (rc == 0) {
        print_reported(reported);
        lull_report_print_shifted(json_object_get(reported, "shifted"), stdout);
    }
    if (rc == 0 && !work->options->is_json &&
        json_array_size(json_object_get(reported, "decisions")) == 0)
        printf("nothing to start now; %lld jobs wait\n",
               (long long)json_integer_value(json_object_get(reported, "waiting")));
    json_decref(reported);
    lull_schedule_journal_close(&journal);
    return rc;
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* Waits for the next round; true: a signal to end has arrived instead. */
static bool scheduler_is_stopped(const sigset_t *signals, int64_t interval_ns)
{
    const struct timespec pause = lull_timespec_from_ns(interval_ns);

    return sigtimedwait(signals, NULL, &pause) > 0;
}

/* Says once that slurmctld is away, and once that it is back. */
static void scheduler_log_away(bool *is_away, int rc, const struct lull_error *err)
{
    if (rc < 0 && !*is_away)
        lull_log(LULL_LOG_WARNING, "schedule", "%s; trying again until it does", err->text);
    else if (rc == 0 && *is_away)
        lull_log(LULL_LOG_WARNING, "schedule", "slurmctld answers again");
    *is_away = rc < 0;
}

/* An invalid tariff changes nothing, and is logged once for each version of the file. */
static void refresh_tariff(struct schedule_work *work, struct lull_round *round)
{
    struct lull_error err = {0};
    bool is_new;

    if (load_tariff(work, &is_new, &err) < 0)
        lull_log(LULL_LOG_WARNING, "schedule", "%s; the prices before count on", err.text);
    round->rules = rules_of(work);
    round->is_pressed = round->is_pressed || is_new;
}

static void scheduler_log_cost(const struct lull_round *round)
{
    struct rusage usage;
    double ms;

    getrusage(RUSAGE_SELF, &usage);
    ms = 1e3 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-3 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    printf("released %" PRIu64 " jobs in %" PRIu64 " looks at the queue; %.1f ms of processor time "
           "in all\n",
           round->decisions, round->looks, ms);
}

static int run_for_good(struct schedule_work *work, struct lull_error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct lull_schedule_journal journal = {.fd = -1};
    struct lull_round round;
    bool is_away = false;
    sigset_t signals;
    int rc = 0;

    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        sigaddset(&signals, ends[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    scheduler_begin_round(work, &journal, &round);
    do {
        json_t *reported = NULL;

        refresh_tariff(work, &round);
        rc = journal.fd < 0 ? scheduler_open_journal(work, &journal, err) : 0;
        if (rc == 0)
            rc = lull_round_run(&round, &reported, err);
        if (rc < 0 && rc != -EAGAIN)
            break;
        scheduler_log_away(&is_away, rc, err);
        print_reported(reported);
        json_decref(reported);
        rc = 0;
    } while (!scheduler_is_stopped(&signals, work->options->interval_ns));
    scheduler_log_cost(&round);
    lull_schedule_journal_close(&journal);
    return rc;
}

/* ---- explaining ---------------------------------------------------------------------------- */

static uint32_t scheduler_find_job(const struct lull_queue *queue, uint32_t id)
{
    uint32_t job = 0;

    while (job < queue->job_count && queue->jobs[job].id != id)
        job++;
    return job;
}

static int explain_waiting(struct schedule_work *work, const struct lull_queue *queue, uint32_t job,
                           struct lull_error *err)
{
    const struct lull_scheduling_rules rules = rules_of(work);
    struct lull_schedule *schedule;
    json_t *document;
    int rc = lull_schedule_create(queue, &rules, &schedule, err);

    if (rc < 0)
        return rc;
    document = lull_report_waiting(queue, schedule, job, work->policy.name, err);
    if (document == NULL)
        rc = err->code < 0 ? err->code : lull_error_set(err, -ENOMEM, "out of memory");
    else if (work->options->is_json)
        scheduler_print_json(document);
    else
        lull_report_print_waiting(document, stdout);
    json_decref(document);
    lull_schedule_destroy(schedule);
    return rc;
}

static int explain_past(struct schedule_work *work, struct lull_error *err)
{
    const uint32_t id = work->options->explained;
    json_t *document;
    int rc = lull_schedule_journal_find(work->state, lull_slurm_partition(work->slurm), id,
                                        &document, err);

    if (rc < 0)
        return rc;
    if (document == NULL)
        return lull_error_set(err, -ENOENT,
                              "job %u does not wait for Lull and is not in the journal in %s: it "
                              "is unknown or scheduled by Slurm itself",
                              id, work->state);
    if (work->options->is_json)
        scheduler_print_json(document);
    else
        lull_report_print_decision(document, false, stdout);
    json_decref(document);
    return rc;
}

static int scheduler_explain(struct schedule_work *work, struct lull_error *err)
{
    const struct lull_queue *queue;
    uint32_t job;
    const int rc = scheduler_read_first(work, &queue, err);

    if (rc < 0)
        return rc;
    job = scheduler_find_job(queue, work->options->explained);
    if (job < queue->job_count && queue->jobs[job].stage == LULL_QUEUE_WAITS)
        return explain_waiting(work, queue, job, err);
    return explain_past(work, err);
}

/* ---- on a node ----------------------------------------------------------------------------- */

/* Becomes the program that holds the clock; ends where the job has none. */
static int scheduler_hold_clock(const struct schedule_options *options, struct lull_error *err)
{
    const char *const program = options->lull != NULL ? options->lull : "lull";
    uint32_t sm_mhz;
    char job[16], mhz[16];
    const int rc = lull_slurm_clock(options->held, &sm_mhz, err);

    if (rc < 0 || sm_mhz == 0)
        return rc;
    snprintf(job, sizeof(job), "%u", options->held);
    snprintf(mhz, sizeof(mhz), "%u", sm_mhz);
    execlp(program, program, "job", "hold", job, "--gpus", options->gpus, "--sm-clock", mhz,
           "--launcher-fd", "3", "--runtime-dir", options->runtime_dir, (char *)NULL);
    return lull_error_set(err, -errno, "%s: %s", program, strerror(errno));
}

/* ---- the command --------------------------------------------------------------------------- */

static int scheduler_prepare(struct schedule_work *work, struct lull_error *err)
{
    const struct schedule_options *const options = work->options;
    bool is_new;
    int rc = 0;

    work->policy =
        *(options->policy != NULL ? options->policy : lull_cluster_policy_find("backfill"));
    if (options->has_knob)
        rc = lull_cluster_policy_set(&work->policy, options->knob, &work->policy, err);
    if (rc == 0 && options->points != NULL)
        rc = lull_point_table_read(options->points, &work->table, err);
    if (rc == 0)
        rc = load_tariff(work, &is_new, err);
    if (rc == 0)
        rc = lull_state_directory_find(options->state, work->state, sizeof(work->state), err);
    if (rc == 0)
        rc = lull_slurm_open(options->partition, &work->slurm, err);
    return rc;
}

static int scheduler_run(void *place, const struct lull_operands *operands)
{
    const struct schedule_options *const options = place;
    struct schedule_work work = {.options = options};
    struct lull_error err = {0};
    int rc;

    (void)operands;
    if (options->held != 0) {
        rc = scheduler_hold_clock(options, &err);
        return rc < 0 ? lull_program_fail("lull-schedule", &err) : LULL_EXIT_OK;
    }
    rc = scheduler_prepare(&work, &err);
    if (rc == 0 && options->explained != 0)
        rc = scheduler_explain(&work, &err);
    else if (rc == 0 && (options->is_once || options->is_dry))
        rc = scheduler_run_once(&work, &err);
    else if (rc == 0)
        rc = run_for_good(&work, &err);
    lull_slurm_close(work.slurm);
    lull_point_table_destroy(work.table);
    lull_tariff_fini(&work.tariff);
    lull_past_fini(&work.past);
    return rc < 0 ? lull_program_fail("lull-schedule", &err) : LULL_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct lull_program_command command = {
        .name = "lull-schedule",
        .summary = "schedule the jobs of a Slurm cluster that request it",
        .about = "Looks at Slurm's queue again and again, and releases the jobs that were "
                 "submitted with --lull-schedule (or with -H --comment=lull-schedule): in the "
                 "order of a policy, on nodes and at clocks of its choice. Other jobs are left to "
                 "Slurm's own scheduler. It may be killed and started again at any time.",
        .print_after = scheduler_print_policies,
        .tables = {{rows, 0}},
        .size = sizeof(struct schedule_options),
        .check = scheduler_check,
        .run = scheduler_run,
    };
    static const struct lull_program_command *const commands[] = {&command, NULL};
    static const struct lull_program program = {
        .name = "lull-schedule", .version = LULL_VERSION, .commands = commands};

    lull_log_init(LULL_LOG_WARNING);
    return lull_program_main(&program, argc, argv);
}
