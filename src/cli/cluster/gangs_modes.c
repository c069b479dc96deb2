/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/gangs_modes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cluster/job_modes.h"

enum { MOST_COUNTS = 9 }; /* a sixteenth to sixteen times as many GPUs */

/* Room to work in. */
struct work {
    struct lull_cluster_mode candidates[LULL_JOB_MOST_CANDIDATES];
    struct lull_job_offer offers[LULL_GANGS_MOST_TYPES];
    struct lull_job_rates rates[LULL_GANGS_MOST_TYPES];
    size_t offer_count;
    uint32_t gpus[MOST_COUNTS];
    size_t gpus_count;
};

/* ---- once for all jobs -------------------------------------------------------------------- */

static struct lull_job_tempo *tempo_of(const struct lull_gangs_modes *modes, uint32_t type,
                                       uint32_t job_class)
{
    return &modes->tempo[((size_t)type * LULL_JOB_CLASSES + job_class) * LULL_JOB_MOST_CLOCKS];
}

static int prepare(struct lull_gangs_modes *modes, size_t jobs, struct lull_error *err)
{
    const struct lull_gangs_modes_options *wish = modes->wish;

    modes->tempo = calloc((size_t)wish->type_count * LULL_JOB_CLASSES * LULL_JOB_MOST_CLOCKS,
                          sizeof(*modes->tempo));
    modes->classes = calloc(jobs + 1, sizeof(*modes->classes));
    modes->workloads.of_job = malloc((jobs + 1) * sizeof(*modes->workloads.of_job));
    if (modes->tempo == NULL || modes->classes == NULL || modes->workloads.of_job == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the modes of %zu jobs", jobs);
    for (size_t i = 0; i < jobs; i++)
        modes->workloads.of_job[i] = UINT32_MAX;
    for (uint32_t type = 0; type < wish->type_count; type++)
        for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++) {
            modes->clocks[type] =
                lull_job_type_tempo(&wish->types[type], i, wish->network, tempo_of(modes, type, i));
            modes->sync_ratio[i] = lull_job_classes[i].sync_ratio[wish->network];
        }
    return 0;
}

static int read_rates(struct lull_gangs_modes *modes, struct lull_error *err)
{
    const struct lull_gangs_modes_options *wish = modes->wish;
    int rc;

    if (wish->rates == NULL)
        return 0;
    rc = lull_job_rates_read(wish->rates, &modes->rates, err);
    for (uint32_t i = 0; rc == 0 && i < wish->type_count; i++)
        if (!lull_job_rates_has_gpu(&modes->rates, wish->types[i].name))
            rc = lull_error_set(err, -EINVAL, "%s: has no rates on a %s", wish->rates,
                                wish->types[i].name);
    return rc;
}

/* ---- one job ------------------------------------------------------------------------------ */

/* What is recorded trains something large, if nothing tells. */
static uint32_t choose_class(struct lull_gangs_modes *modes, const char *model, bool is_recorded,
                             struct lull_random *random)
{
    uint32_t job_class = modes->wish->job_class;

    if (job_class == LULL_JOB_CLASSES)
        job_class = lull_job_class_of(model);
    if (job_class == LULL_JOB_CLASSES && is_recorded) {
        job_class = lull_job_class_find("compute");
    } else if (job_class == LULL_JOB_CLASSES) {
        job_class = lull_job_class_draw(random);
        modes->drawn++;
    }
    modes->of_class[job_class]++;
    return job_class;
}

static double rate_with(const struct lull_job_rates *rates, uint32_t gpus)
{
    for (uint32_t i = 0; i < rates->count; i++)
        if (rates->rows[i].gpus == gpus)
            return rates->rows[i].rate;
    return 0.0;
}

/* How the job would run on a type; nothing, where nothing says how fast it is there. */
static void offer_type(const struct lull_gangs_modes *modes, struct work *work, uint32_t type,
                       uint32_t job_class, const struct lull_cluster_jobs_row *row)
{
    const struct lull_job_rates *here = &work->rates[type];
    const double rate = rate_with(here, row->gpus);
    const double reference = rate_with(&work->rates[0], row->gpus);
    struct lull_job_offer *offer = &work->offers[work->offer_count];

    if (type > 0 && !(rate > 0.0 && reference > 0.0))
        return;
    *offer = (struct lull_job_offer){
        .surface = {.tempo = tempo_of(modes, type, job_class),
                    .clock_count = modes->clocks[type],
                    .sync_ratio = modes->sync_ratio[job_class],
                    .rates = rate > 0.0 ? here : NULL,
                    .gpus = row->gpus,
                    .time_ns = row->duration_ns,
                    .read_mb_s = lull_job_classes[job_class].read_mb_s},
        .type = type,
    };
    if (type > 0) {
        const double time_ns = (double)row->duration_ns * reference / rate;

        if (time_ns < 1.0 || time_ns > (double)LULL_CLUSTER_MOST_NS)
            return;
        offer->surface.time_ns = (int64_t)time_ns;
        offer->surface.read_mb_s *= rate / reference;
    }
    work->offer_count++;
}

static void make_offers(const struct lull_gangs_modes *modes, struct work *work, uint32_t job_class,
                        const struct lull_cluster_jobs_row *row, const char *model,
                        uint32_t gpus_per_node)
{
    const struct lull_gangs_modes_options *wish = modes->wish;

    work->offer_count = 0;
    for (uint32_t type = 0; type < wish->type_count; type++) {
        work->rates[type].count = 0;
        if (modes->rates.count > 0)
            lull_job_rates_of(&modes->rates, wish->types[type].name, model,
                              row->gpus <= gpus_per_node, &work->rates[type]);
        offer_type(modes, work, type, job_class, row);
    }
}

/* In the range that the job has of its own, else by the factor for all. */
static void make_counts(const struct lull_gangs_modes_options *wish, struct work *work,
                        const struct lull_cluster_jobs_row *row)
{
    const bool has_range = row->most_gpus > 0;
    const uint32_t most_factor = has_range ? LULL_GANGS_MOST_ELASTIC : (uint32_t)wish->elastic;
    const uint32_t least = has_range ? row->least_gpus : 1;
    const uint32_t most = has_range ? row->most_gpus : UINT32_MAX;

    work->gpus_count = 0;
    work->gpus[work->gpus_count++] = row->gpus;
    for (uint32_t factor = 2; factor <= most_factor; factor *= 2) {
        if (row->gpus % factor == 0 && row->gpus / factor >= least)
            work->gpus[work->gpus_count++] = row->gpus / factor;
        if (row->gpus <= most / factor)
            work->gpus[work->gpus_count++] = row->gpus * factor;
    }
}

/* At modes->all[modes->count], for which there is room. */
static size_t make_modes(const struct lull_gangs_modes *modes, struct work *work)
{
    const uint32_t step = modes->wish->has_clocks ? 1 : LULL_JOB_MOST_CLOCKS;

    return lull_job_modes(work->offers, work->offer_count, work->gpus, work->gpus_count, step,
                          work->candidates, &modes->all[modes->count]);
}

/* The pipeline of so many GPUs on the first type, until the next is asked for. -ENOMEM. */
static int find_pipelined(struct lull_gangs_modes *modes, uint32_t gpus,
                          const struct lull_job_pipelined **pipelined_out, struct lull_error *err)
{
    int rc = 0;
    struct lull_job_pipelined *more;
    size_t i = 0;

    while (i < modes->pipelined_count && modes->pipelined[i].gpus != gpus)
        i++;
    if (i == modes->pipelined_count) {
        more = realloc(modes->pipelined, (i + 1) * sizeof(*more));
        if (more == NULL)
            return lull_error_set(err, -ENOMEM, "no memory for a pipeline of %u GPUs", gpus);
        modes->pipelined = more;
        rc = lull_job_pipelined_make(&modes->wish->types[0], modes->wish->network, gpus, &more[i],
                                     err);
        modes->pipelined_count += rc == 0;
    }
    *pipelined_out = &modes->pipelined[i];
    return rc;
}

static bool is_pipeline(const struct lull_gangs_modes *modes, uint32_t job_class, uint32_t gpus)
{
    return modes->wish->has_pipelines && job_class == lull_job_class_find("compute") &&
           lull_job_pipelined_is_possible(&modes->wish->types[0], gpus);
}

static int make_pipeline_modes(struct lull_gangs_modes *modes,
                               const struct lull_cluster_jobs_row *row,
                               struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_job_pipelined *pipelined = NULL;
    const int rc = find_pipelined(modes, row->gpus, &pipelined, err);

    if (rc < 0)
        return rc;
    job->mode_count =
        lull_job_pipelined_modes(pipelined, row->duration_ns, 0, &modes->all[modes->count]);
    modes->pipelines++;
    return 0;
}

static int make_recorded_modes(struct lull_gangs_modes *modes,
                               const struct lull_cluster_jobs_table *table, size_t row,
                               struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_job_setting setting = {
        .type = &modes->wish->types[0],
        .job_class = modes->classes[row],
        .network = modes->wish->network,
        .gpus = table->rows[row].gpus,
        .has_clocks = modes->wish->has_clocks,
    };
    const int rc =
        lull_gangs_workloads_add(&modes->workloads, modes->path, table, row, &setting, err);

    if (rc < 0)
        return rc;
    job->mode_count = lull_job_recorded_modes(
        &lull_gangs_workloads_of(&modes->workloads, row)->made, table->rows[row].duration_ns, 0,
        setting.gpus, &modes->all[modes->count]);
    return 0;
}

static int make_room(struct lull_gangs_modes *modes, struct lull_error *err)
{
    struct lull_cluster_mode *all;

    if (modes->room - modes->count >= LULL_CLUSTER_MOST_MODES)
        return 0;
    modes->room = 2 * modes->room + 1024;
    all = realloc(modes->all, modes->room * sizeof(*all));
    if (all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu modes", modes->room);
    modes->all = all;
    return 0;
}

/* Of one job, at modes->all[modes->count]; work has room to do so. */
static int make_job(struct lull_gangs_modes *modes, const struct lull_cluster_jobs_table *table,
                    size_t number, uint32_t gpus_per_node, struct work *work,
                    struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_cluster_jobs_row *row = &table->rows[number];
    const uint32_t job_class = modes->classes[number];

    if (row->workload != UINT32_MAX)
        return make_recorded_modes(modes, table, number, job, err);
    if (is_pipeline(modes, job_class, row->gpus))
        return make_pipeline_modes(modes, row, job, err);
    make_offers(modes, work, job_class, row, lull_cluster_jobs_name(table, row->model),
                gpus_per_node);
    make_counts(modes->wish, work, row);
    job->mode_count = (uint32_t)make_modes(modes, work);
    return 0;
}

static int make_all(struct lull_gangs_modes *modes, const struct lull_cluster_jobs_table *table,
                    uint32_t gpus_per_node, struct work *work, struct lull_cluster_job *jobs,
                    struct lull_error *err)
{
    struct lull_random random;
    size_t first = 0;

    lull_random_init(&random, (uint64_t)modes->wish->seed);
    for (size_t i = 0; i < table->count; i++) {
        const struct lull_cluster_jobs_row *row = &table->rows[i];
        int rc = make_room(modes, err);

        if (rc < 0)
            return rc;
        modes->classes[i] = (uint8_t)choose_class(modes, lull_cluster_jobs_name(table, row->model),
                                                  row->workload != UINT32_MAX, &random);
        rc = make_job(modes, table, i, gpus_per_node, work, &jobs[i], err);
        if (rc < 0)
            return rc;
        modes->count += jobs[i].mode_count;
    }
    /* Now that they do not move any more. */
    for (size_t i = 0; i < table->count; i++) {
        jobs[i].modes = &modes->all[first];
        first += jobs[i].mode_count;
    }
    return 0;
}

int lull_gangs_modes_make(struct lull_gangs_modes *modes,
                          const struct lull_gangs_modes_options *wish, const char *path,
                          const struct lull_cluster_jobs_table *table, uint32_t gpus_per_node,
                          struct lull_cluster_job *jobs, struct lull_error *err)
{
    struct work *work = malloc(sizeof(*work));
    int rc;

    modes->wish = wish;
    modes->path = path;
    rc = work == NULL ? lull_error_set(err, -ENOMEM, "no memory for modes")
                      : prepare(modes, table->count, err);
    if (rc == 0)
        rc = read_rates(modes, err);
    if (rc == 0)
        rc = make_all(modes, table, gpus_per_node, work, jobs, err);
    free(work);
    return rc;
}

void lull_gangs_modes_fini(struct lull_gangs_modes *modes)
{
    lull_job_rates_fini(&modes->rates);
    free(modes->tempo);
    free(modes->classes);
    free(modes->pipelined);
    lull_gangs_workloads_fini(&modes->workloads);
    free(modes->all);
    *modes = (struct lull_gangs_modes){0};
}

/* ---- what was assumed --------------------------------------------------------------------- */

static const char *network_name(const struct lull_gangs_modes *modes)
{
    return modes->wish->network == LULL_JOB_NVLINK ? "nvlink" : "ethernet";
}

static double mean_modes(const struct lull_gangs_modes *modes, size_t jobs)
{
    return jobs > 0 ? (double)modes->count / (double)jobs : 0.0;
}

json_t *lull_gangs_modes_json(const struct lull_gangs_modes *modes, size_t jobs)
{
    const struct lull_gangs_modes_options *wish = modes->wish;
    json_t *types = json_array();
    json_t *classes = json_object();

    for (uint32_t i = 0; i < wish->type_count; i++)
        json_array_append_new(types, json_string(wish->types[i].name));
    for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++)
        json_object_set_new(classes, lull_job_classes[i].name,
                            json_integer((json_int_t)modes->of_class[i]));
    return json_pack("{s:o, s:b, s:I, s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:f}", "gpus", types,
                     "clocks", (int)wish->has_clocks, "elastic", (json_int_t)wish->elastic,
                     "network", network_name(modes), "seed", (json_int_t)wish->seed, "classes",
                     classes, "classes_drawn", (json_int_t)modes->drawn, "pipelines",
                     (json_int_t)modes->pipelines, "workloads", (json_int_t)modes->workloads.jobs,
                     "workload_files", (json_int_t)modes->workloads.file_count, "modes_per_job",
                     mean_modes(modes, jobs));
}

void lull_gangs_modes_print(const struct lull_gangs_modes *modes, size_t jobs)
{
    const struct lull_gangs_modes_options *wish = modes->wish;

    printf("modes               %.1f per job, on", mean_modes(modes, jobs));
    for (uint32_t i = 0; i < wish->type_count; i++)
        printf("%s %s", i > 0 ? "," : "", wish->types[i].name);
    printf(" over %s\nclasses             ", network_name(modes));
    for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++)
        printf("%s%s %zu", i > 0 ? ", " : "", lull_job_classes[i].name, modes->of_class[i]);
    printf("; %zu of them drawn (seed %lld)\n", modes->drawn, (long long)wish->seed);
    if (modes->workloads.jobs > 0)
        printf("recorded workloads  %zu jobs, of %zu files\n", modes->workloads.jobs,
               modes->workloads.file_count);
}
