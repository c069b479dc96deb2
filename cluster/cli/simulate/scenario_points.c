/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cli/simulate/scenario_points.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_string.h"
#include "cluster/core/model/operating_points.h"

enum { MAX_COUNTS = 9 }; /* a sixteenth of a job's GPUs to sixteen times as many */

/* Room in which the operating points of one job are made. */
struct points_work {
    struct lull_cluster_point candidates[LULL_JOB_MAX_CANDIDATES];
    struct lull_job_offer offers[LULL_SCENARIO_MAX_TYPES];
    struct lull_job_rates rates[LULL_SCENARIO_MAX_TYPES];
    size_t offer_count;
    const struct lull_scenario_fitted *models[LULL_SCENARIO_MAX_TYPES]; /* of the job; NULL: none */
    uint32_t gpus[MAX_COUNTS];
    size_t gpus_count;
};

/* ---- data of all jobs --------------------------------------------------------------------- */

static struct lull_job_tempo *tempo_of(const struct lull_scenario_points *points, uint32_t type,
                                       uint32_t job_class)
{
    return &points->tempo[((size_t)type * LULL_JOB_CLASSES + job_class) * LULL_JOB_MAX_CLOCKS];
}

/* Makes the data common to all jobs: the scaling of each class on each type over the clocks. */
static int scenario_points_prepare(struct lull_scenario_points *points, size_t jobs,
                                   struct lull_error *err)
{
    const struct lull_scenario_model_options *options = points->options;

    points->tempo = calloc((size_t)options->type_count * LULL_JOB_CLASSES * LULL_JOB_MAX_CLOCKS + 1,
                           sizeof(*points->tempo));
    points->classes = calloc(jobs + 1, sizeof(*points->classes));
    points->workloads.of_job = malloc((jobs + 1) * sizeof(*points->workloads.of_job));
    if (points->tempo == NULL || points->classes == NULL || points->workloads.of_job == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the operating points of %zu jobs", jobs);
    for (size_t i = 0; i < jobs; i++)
        points->workloads.of_job[i] = UINT32_MAX;
    for (uint32_t type = 0; type < options->type_count; type++)
        for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++) {
            points->clocks[type] = lull_job_type_tempo(&options->types[type], i, options->network,
                                                       tempo_of(points, type, i));
            points->sync_ratio[i] = lull_job_classes[i].sync_ratio[options->network];
        }
    return 0;
}

static int read_rates(struct lull_scenario_points *points, struct lull_error *err)
{
    const struct lull_scenario_model_options *options = points->options;
    int rc;

    if (options->rates == NULL)
        return 0;
    rc = lull_job_rates_read(options->rates, &points->rates, err);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < options->type_count; i++)
        if (!lull_job_rates_has_gpu(&points->rates, options->types[i].name))
            return lull_error_set(err, -EINVAL, "%s: has no rates on a %s", options->rates,
                                  options->types[i].name);
    return 0;
}

/* ---- one job by its class ----------------------------------------------------------------- */

/* A recorded or fitted job of unknown class counts as compute: most recorded jobs are large. */
static uint32_t choose_class(struct lull_scenario_points *points, const char *model, bool is_known,
                             struct lull_random *random)
{
    uint32_t job_class = points->options->job_class;

    if (job_class == LULL_JOB_CLASSES)
        job_class = lull_job_class_of(model);
    if (job_class == LULL_JOB_CLASSES && is_known) {
        job_class = lull_job_class_find("compute");
    } else if (job_class == LULL_JOB_CLASSES) {
        job_class = lull_job_class_draw(random);
        points->drawn++;
    }
    points->of_class[job_class]++;
    return job_class;
}

/* Returns the surface of a job on a type, by its fitted model if there is one, else by its class.
 */
static struct lull_job_surface surface_of(const struct lull_scenario_points *points,
                                          const struct points_work *work, uint32_t type,
                                          uint32_t job_class)
{
    const struct lull_scenario_fitted *const model = work->models[type];

    return (struct lull_job_surface){
        .tempo = model != NULL ? model->tempo : tempo_of(points, type, job_class),
        .clock_count = model != NULL ? model->clock_count : points->clocks[type],
        .sync_ratio = model != NULL ? 0.0 : points->sync_ratio[job_class],
        .read_mb_s = lull_job_classes[job_class].read_mb_s,
    };
}

/* Adds how the job runs on a type, unless its speed there is unknown. */
static void offer_type(const struct lull_scenario_points *points, struct points_work *work,
                       uint32_t type, uint32_t job_class, const struct lull_job_table_row *row)
{
    const struct lull_job_rates *here = &work->rates[type];
    const double rate = lull_job_rate_with(here, row->gpus);
    const double reference = lull_job_rate_with(&work->rates[0], row->gpus);
    struct lull_job_offer *offer = &work->offers[work->offer_count];

    if (type > 0 && !(rate > 0.0 && reference > 0.0))
        return;
    *offer =
        (struct lull_job_offer){.surface = surface_of(points, work, type, job_class), .type = type};
    offer->surface.rates = rate > 0.0 ? here : NULL;
    offer->surface.gpus = row->gpus;
    offer->surface.time_ns = row->duration_ns;
    if (type > 0) {
        const double time_ns = (double)row->duration_ns * reference / rate;

        if (time_ns < 1.0 || time_ns > (double)LULL_CLUSTER_MAX_NS)
            return;
        offer->surface.time_ns = (int64_t)time_ns;
        offer->surface.read_mb_s *= rate / reference;
    }
    work->offer_count++;
}

static void make_offers(const struct lull_scenario_points *points, struct points_work *work,
                        uint32_t job_class, const struct lull_job_table_row *row, const char *model)
{
    const struct lull_scenario_model_options *options = points->options;
    const bool is_consolidated = row->gpus <= options->gpus_per_node;

    work->offer_count = 0;
    for (uint32_t type = 0; type < options->type_count; type++) {
        work->rates[type].count = 0;
        if (points->rates.count > 0)
            lull_job_rates_of(&points->rates, options->types[type].name, model, is_consolidated,
                              &work->rates[type]);
        offer_type(points, work, type, job_class, row);
    }
}

/* Finds the fitted models of the job on each type. Errors: -EINVAL the name is ambiguous. */
static int find_models(const struct lull_scenario_points *points, struct points_work *work,
                       const char *model, struct lull_error *err)
{
    int rc = 0;

    for (uint32_t type = 0; type < points->options->type_count && rc == 0; type++)
        rc = lull_scenario_models_find(&points->models, type, model, &work->models[type], err);
    return rc;
}

/* The number that the job requests comes first, then by powers of two fewer and more: within the
 * table's range, where it has one, else as far as --elastic goes. */
static void make_counts(const struct lull_scenario_model_options *options, struct points_work *work,
                        const struct lull_job_table_row *row)
{
    uint32_t max_factor = (uint32_t)options->elastic;
    uint32_t least = 1;
    uint32_t most = UINT32_MAX;

    if (row->max_gpus > 0) {
        max_factor = LULL_SCENARIO_MAX_ELASTIC;
        least = row->min_gpus;
        most = row->max_gpus;
    }
    work->gpus_count = 0;
    work->gpus[work->gpus_count++] = row->gpus;
    for (uint32_t factor = 2; factor <= max_factor; factor *= 2) {
        if (row->gpus % factor == 0 && row->gpus / factor >= least)
            work->gpus[work->gpus_count++] = row->gpus / factor;
        if (row->gpus <= most / factor)
            work->gpus[work->gpus_count++] = row->gpus * factor;
    }
}

/* ---- one job of another form -------------------------------------------------------------- */

/* Each job makes its operating points behind those of the jobs before it. */
static struct lull_cluster_point *next_of(const struct lull_scenario_point_list *list)
{
    return &list->all[list->count];
}

/* Gives the job the operating points that its policy has, and the bound's. */
static void take_candidates(struct lull_scenario_points *points,
                            struct lull_cluster_point *candidates, size_t count,
                            struct lull_cluster_job *job)
{
    if (points->is_relaxed)
        points->relaxed_of_job =
            lull_operating_points_relax(candidates, count, next_of(&points->relaxed));
    job->point_count = (uint32_t)lull_operating_points_choose(
        candidates, count, LULL_CLUSTER_MAX_POINTS, next_of(&points->chosen));
}

/* Finds or makes the pipeline on this many GPUs of the first type; the pointer is valid until
 * the next call. Errors: -ENOMEM. */
static int find_pipelined(struct lull_scenario_points *points, uint32_t gpus,
                          const struct lull_job_pipelined **pipelined_out, struct lull_error *err)
{
    struct lull_job_pipelined *more;
    size_t i = 0;
    int rc;

    while (i < points->pipelined_count && points->pipelined[i].gpus != gpus)
        i++;
    if (i == points->pipelined_count) {
        more = realloc(points->pipelined, (i + 1) * sizeof(*more));
        if (more == NULL)
            return lull_error_set(err, -ENOMEM, "no memory for a pipeline of %u GPUs", gpus);
        points->pipelined = more;
        rc = lull_job_pipelined_make(&points->options->types[0], points->options->network, gpus,
                                     &more[i], err);
        if (rc < 0)
            return rc;
        points->pipelined_count++;
    }
    *pipelined_out = &points->pipelined[i];
    return 0;
}

static bool is_pipeline(const struct lull_scenario_points *points, uint32_t job_class,
                        uint32_t gpus)
{
    return points->options->has_pipelines && job_class == lull_job_class_find("compute") &&
           lull_job_pipelined_is_possible(&points->options->types[0], gpus);
}

static int make_pipeline(struct lull_scenario_points *points, const struct lull_job_table_row *row,
                         struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_job_pipelined *pipelined = NULL;
    const int rc = find_pipelined(points, row->gpus, &pipelined, err);

    if (rc < 0)
        return rc;
    job->point_count = lull_job_points_make(&pipelined->points, row->duration_ns, 0,
                                            pipelined->gpus, next_of(&points->chosen));
    if (points->is_relaxed)
        points->relaxed_of_job = lull_job_points_make(&pipelined->relaxed, row->duration_ns, 0,
                                                      pipelined->gpus, next_of(&points->relaxed));
    points->pipelines++;
    return 0;
}

static int make_recorded(struct lull_scenario_points *points, const struct lull_job_table *table,
                         size_t row, struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_scenario_model_options *options = points->options;
    const struct lull_job_setting setting = {
        .type = &options->types[0],
        .job_class = points->classes[row],
        .network = options->network,
        .gpus = table->rows[row].gpus,
        .has_clocks = options->has_clocks,
    };
    const struct lull_job_recorded *made;
    const int rc =
        lull_scenario_workloads_add(&points->workloads, options->path, table, row, &setting, err);

    if (rc < 0)
        return rc;
    made = &lull_scenario_workloads_of(&points->workloads, row)->made;
    job->point_count = lull_job_recorded_points(&made->points, table->rows[row].duration_ns, 0,
                                                setting.gpus, next_of(&points->chosen));
    if (points->is_relaxed)
        points->relaxed_of_job =
            lull_job_recorded_points(&made->relaxed, table->rows[row].duration_ns, 0, setting.gpus,
                                     next_of(&points->relaxed));
    return 0;
}

/* The one operating point of a job of which only the table's row is known. */
static void make_plain(struct lull_scenario_points *points, const struct lull_job_table_row *row,
                       struct lull_cluster_job *job)
{
    struct lull_cluster_point only = {
        .gpus = row->gpus,
        .time_ns = row->duration_ns,
        .energy_j = points->options->run_w * row->gpus * (double)row->duration_ns * 1e-9,
    };

    take_candidates(points, &only, 1, job);
}

static struct lull_cluster_point scenario_points_from_row(const struct lull_job_table_row *row,
                                                          const struct lull_table_point *reported)
{
    const double time_s = (double)row->duration_ns * 1e-9 * reported->time_ratio;

    return (struct lull_cluster_point){.gpus = row->gpus,
                                       .sm_mhz = reported->sm_mhz,
                                       .time_ns = (int64_t)(time_s * 1e9),
                                       .energy_j = reported->gpu_w * row->gpus * time_s};
}

/* The operating points that a table gives for a job. A job that is not in the table runs at full
 * clocks, as under lull-schedule. */
static void make_reported(struct lull_scenario_points *points, const struct lull_job_table_row *row,
                          const char *model, struct lull_cluster_job *job)
{
    const struct lull_table_gpu *const gpu = lull_point_table_only_gpu(points->reported);
    const struct lull_table_point full = {.time_ratio = 1.0, .gpu_w = gpu->full_w};
    const struct lull_table_row *const known =
        lull_point_table_find(points->reported, model, gpu->type);
    struct lull_cluster_point candidates[LULL_POINT_TABLE_MAX] = {
        scenario_points_from_row(row, &full)};
    uint32_t count = 1;

    if (known != NULL)
        for (count = 0; count < known->count; count++)
            candidates[count] = scenario_points_from_row(row, &known->points[count]);
    take_candidates(points, candidates, count, job);
}

/* ---- all jobs ----------------------------------------------------------------------------- */

/* There is room for the operating points of one job. */
static int make_job(struct lull_scenario_points *points, const struct lull_job_table *table,
                    size_t number, struct lull_random *random, struct points_work *work,
                    struct lull_cluster_job *job, struct lull_error *err)
{
    const struct lull_job_table_row *row = &table->rows[number];
    const char *model = lull_job_table_name(table, row->model);
    const bool is_recorded = row->workload != UINT32_MAX;
    uint32_t job_class;
    size_t count;
    int rc;

    if (points->reported != NULL) {
        make_reported(points, row, model, job);
        return 0;
    }
    if (points->options->type_count == 0) {
        make_plain(points, row, job);
        return 0;
    }
    rc = find_models(points, work, model, err);
    if (rc < 0)
        return rc;
    job_class = choose_class(points, model, is_recorded || work->models[0] != NULL, random);
    points->classes[number] = (uint8_t)job_class;
    if (is_recorded)
        return make_recorded(points, table, number, job, err);
    points->modelled += work->models[0] != NULL;
    if (work->models[0] == NULL && is_pipeline(points, job_class, row->gpus))
        return make_pipeline(points, row, job, err);
    make_offers(points, work, job_class, row, model);
    make_counts(points->options, work, row);
    /* A step over all clocks leaves the highest. */
    count = lull_operating_points_list(
        work->offers, work->offer_count, work->gpus, work->gpus_count,
        points->options->has_clocks ? 1 : LULL_JOB_MAX_CLOCKS, work->candidates);
    take_candidates(points, work->candidates, count, job);
    return 0;
}

/* Makes room for the operating points of one more job. */
static int scenario_points_make_room(struct lull_scenario_point_list *list, size_t most,
                                     struct lull_error *err)
{
    struct lull_cluster_point *all;

    if (list->room - list->count >= most)
        return 0;
    list->room = 2 * list->room + 1024;
    all = realloc(list->all, list->room * sizeof(*all));
    if (all == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu operating points", list->room);
    list->all = all;
    return 0;
}

/* Allocates the bound's copy of the jobs. */
static int prepare_relaxed(struct lull_scenario_points *points, size_t count,
                           struct lull_error *err)
{
    if (!points->is_relaxed)
        return 0;
    points->relaxed_jobs = calloc(count + 1, sizeof(*points->relaxed_jobs));
    if (points->relaxed_jobs == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the bound of %zu jobs", count);
    return 0;
}

/* Sets the jobs' pointers into their list, which no longer moves. */
static void point_jobs(const struct lull_scenario_point_list *list, struct lull_cluster_job *jobs,
                       size_t count)
{
    size_t first = 0;

    for (size_t i = 0; i < count; i++) {
        jobs[i].points = &list->all[first];
        first += jobs[i].point_count;
    }
}

static int make_all(struct lull_scenario_points *points, const struct lull_job_table *table,
                    struct points_work *work, struct lull_cluster_job *jobs, struct lull_error *err)
{
    struct lull_random random;
    int rc = prepare_relaxed(points, table->count, err);

    lull_random_init(&random, (uint64_t)points->options->seed);
    for (size_t i = 0; i < table->count && rc == 0; i++) {
        rc = scenario_points_make_room(&points->chosen, LULL_CLUSTER_MAX_POINTS, err);
        if (rc == 0 && points->is_relaxed)
            rc = scenario_points_make_room(&points->relaxed, LULL_CLUSTER_RELAXED_POINTS, err);
        if (rc == 0)
            rc = make_job(points, table, i, &random, work, &jobs[i], err);
        if (rc < 0)
            break;
        points->chosen.count += jobs[i].point_count;
        if (points->is_relaxed)
            points->relaxed_jobs[i].point_count = (uint32_t)points->relaxed_of_job;
        points->relaxed.count += points->relaxed_of_job;
    }
    if (rc < 0)
        return rc;
    point_jobs(&points->chosen, jobs, table->count);
    if (points->is_relaxed)
        point_jobs(&points->relaxed, points->relaxed_jobs, table->count);
    return 0;
}

int lull_scenario_points_make(struct lull_scenario_points *points,
                              const struct lull_scenario_model_options *options,
                              const struct lull_point_table *reported,
                              const struct lull_job_table *table, bool is_bounded,
                              struct lull_cluster_job *jobs, struct lull_error *err)
{
    struct points_work *work;
    int rc;

    *points = (struct lull_scenario_points){
        .options = options, .reported = reported, .is_relaxed = is_bounded};
    if (options->type_count == 0) {
        rc = lull_scenario_workloads_refuse(options->path, table, err);
        if (rc < 0)
            return rc;
    }
    rc = scenario_points_prepare(points, table->count, err);
    if (rc < 0)
        return rc;
    rc = read_rates(points, err);
    if (rc == 0 && options->models != NULL)
        rc = lull_scenario_models_read(&points->models, options->models, options->types,
                                       options->type_count, err);
    if (rc < 0)
        return rc;
    work = calloc(1, sizeof(*work));
    if (work == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the operating points of a job");
    rc = make_all(points, table, work, jobs, err);
    free(work);
    return rc;
}

void lull_scenario_points_fini(struct lull_scenario_points *points)
{
    lull_job_rates_fini(&points->rates);
    free(points->tempo);
    free(points->classes);
    free(points->pipelined);
    lull_scenario_workloads_fini(&points->workloads);
    lull_scenario_models_fini(&points->models);
    free(points->chosen.all);
    free(points->relaxed.all);
    free(points->relaxed_jobs);
    *points = (struct lull_scenario_points){0};
}

/* ---- assumptions -------------------------------------------------------------------------- */

static const char *network_name(const struct lull_scenario_points *points)
{
    return points->options->network == LULL_JOB_NVLINK ? "nvlink" : "ethernet";
}

static double mean_count(const struct lull_scenario_points *points, size_t jobs)
{
    return jobs > 0 ? (double)points->chosen.count / (double)jobs : 0.0;
}

json_t *lull_scenario_points_json(const struct lull_scenario_points *points, size_t jobs)
{
    const struct lull_scenario_model_options *options = points->options;
    json_t *types = json_array();
    json_t *classes = json_object();

    for (uint32_t i = 0; i < options->type_count; i++)
        json_array_append_new(types, lull_json_string(options->types[i].name));
    for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++)
        json_object_set_new(classes, lull_job_classes[i].name,
                            json_integer((json_int_t)points->of_class[i]));
    return json_pack("{s:o, s:b, s:I, s:o, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:f}", "gpus", types,
                     "clocks", (int)options->has_clocks, "elastic", (json_int_t)options->elastic,
                     "network", lull_json_string(network_name(points)), "seed",
                     (json_int_t)options->seed, "classes", classes, "classes_drawn",
                     (json_int_t)points->drawn, "pipelines", (json_int_t)points->pipelines,
                     "workloads", (json_int_t)points->workloads.jobs, "workload_files",
                     (json_int_t)points->workloads.file_count, "modelled",
                     (json_int_t)points->modelled, "modes_per_job", mean_count(points, jobs));
}

void lull_scenario_points_print(const struct lull_scenario_points *points, size_t jobs)
{
    const struct lull_scenario_model_options *options = points->options;

    printf("modes               %.1f per job, on", mean_count(points, jobs));
    for (uint32_t i = 0; i < options->type_count; i++)
        printf("%s %s", i > 0 ? "," : "", options->types[i].name);
    printf(" over %s\nclasses             ", network_name(points));
    for (uint32_t i = 0; i < LULL_JOB_CLASSES; i++)
        printf("%s%s %zu", i > 0 ? ", " : "", lull_job_classes[i].name, points->of_class[i]);
    printf("; %zu of them drawn (seed %lld)\n", points->drawn, (long long)options->seed);
    if (points->workloads.jobs > 0)
        printf("recorded workloads  %zu jobs, of %zu files\n", points->workloads.jobs,
               points->workloads.file_count);
    if (points->models.path != NULL)
        printf("fitted models       %zu jobs, of %s\n", points->modelled, points->models.path);
}
