/* SPDX-License-Identifier: Apache-2.0 */
#include "store/limit_profiles.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *const migrations[] = {
    "CREATE TABLE profile ("
    " id INTEGER PRIMARY KEY, program TEXT NOT NULL, gpu_name TEXT NOT NULL,"
    " gpu_count INTEGER NOT NULL, measured_s INTEGER NOT NULL, host TEXT NOT NULL,"
    " aim TEXT NOT NULL, eta_ratio REAL NOT NULL, max_power_w REAL NOT NULL,"
    " slowdown_ratio REAL NOT NULL, chosen INTEGER NOT NULL, chosen_s INTEGER NOT NULL,"
    " chosen_by TEXT NOT NULL, UNIQUE (program, gpu_name, gpu_count));"
    "CREATE TABLE measure ("
    " profile INTEGER NOT NULL REFERENCES profile (id) ON DELETE CASCADE,"
    " place INTEGER NOT NULL, limit_w REAL NOT NULL, sm_mhz INTEGER NOT NULL,"
    " iterations INTEGER NOT NULL, seconds REAL NOT NULL, joules REAL NOT NULL,"
    " pieces INTEGER NOT NULL, mean_s REAL NOT NULL, squares_s REAL NOT NULL,"
    " mean_j REAL NOT NULL, squares_j REAL NOT NULL, PRIMARY KEY (profile, place));",
};

const struct lull_store_schema lull_limit_profiles_schema = {
    .name = "limits", .migrations = migrations, .version = 1};

void lull_limit_program(char *const *command, char program_out[LULL_LIMIT_PROGRAM_BYTES])
{
    const char *name = strrchr(command[0], '/');
    char *all = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&all, &size);

    snprintf(program_out, LULL_LIMIT_PROGRAM_BYTES, "%s", name != NULL ? name + 1 : command[0]);
    if (text == NULL)
        return;
    fputs(program_out, text);
    for (char *const *word = command + 1; *word != NULL; word++)
        fprintf(text, " %s", *word);
    fclose(text);
    if (all != NULL && size < LULL_LIMIT_PROGRAM_BYTES)
        snprintf(program_out, LULL_LIMIT_PROGRAM_BYTES, "%s", all);
    else if (all != NULL)
        snprintf(program_out, LULL_LIMIT_PROGRAM_BYTES, "%.200s...%016" PRIx64, all,
                 lull_text_hash(all));
    free(all);
}

/* ---- saving ------------------------------------------------------------------------------ */

static int limit_profiles_run(struct lull_store *store, sqlite3_stmt *statement,
                              struct lull_error *err)
{
    const int result = lull_store_step(store, statement, err);

    sqlite3_finalize(statement);
    return result < 0 ? result : 0;
}

/* The new profile takes the place of the old one, whose measures go with it (ON DELETE CASCADE). */
static int insert_profile(struct lull_store *store, const struct lull_limit_profile *profile,
                          int64_t *id_out, struct lull_error *err)
{
    sqlite3_stmt *statement = lull_store_prepare(
        store,
        "INSERT OR REPLACE INTO profile (program, gpu_name, gpu_count, measured_s, host, aim,"
        " eta_ratio, max_power_w, slowdown_ratio, chosen, chosen_s, chosen_by)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        err);
    int result;

    if (statement == NULL)
        return LULL_E_FORMAT;
    sqlite3_bind_text(statement, 1, profile->program, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, profile->gpu_name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, profile->gpu_count);
    sqlite3_bind_int64(statement, 4, profile->measured_s);
    sqlite3_bind_text(statement, 5, profile->host, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, lull_job_aim_name(profile->selector.aim), -1, SQLITE_STATIC);
    sqlite3_bind_double(statement, 7, profile->selector.price.eta_ratio);
    sqlite3_bind_double(statement, 8, profile->selector.price.max_power_w);
    sqlite3_bind_double(statement, 9, profile->selector.slowdown_ratio);
    sqlite3_bind_int64(statement, 10, profile->chosen);
    sqlite3_bind_int64(statement, 11, profile->chosen_s);
    sqlite3_bind_text(statement, 12, profile->chosen_by, -1, SQLITE_STATIC);
    result = lull_store_step(store, statement, err);
    if (result == 1)
        *id_out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return result == 1 ? 0 : result;
}

static int insert_measure(struct lull_store *store, int64_t id, uint32_t place,
                          const struct lull_limit_measure *measure, struct lull_error *err)
{
    sqlite3_stmt *statement = lull_store_prepare(
        store, "INSERT INTO measure VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", err);

    if (statement == NULL)
        return LULL_E_FORMAT;
    sqlite3_bind_int64(statement, 1, id);
    sqlite3_bind_int64(statement, 2, place);
    sqlite3_bind_double(statement, 3, measure->point.limit_w);
    sqlite3_bind_int64(statement, 4, measure->point.sm_mhz);
    sqlite3_bind_int64(statement, 5, (int64_t)measure->iterations);
    sqlite3_bind_double(statement, 6, measure->seconds);
    sqlite3_bind_double(statement, 7, measure->joules);
    sqlite3_bind_int64(statement, 8, (int64_t)measure->iteration_s.count);
    sqlite3_bind_double(statement, 9, measure->iteration_s.mean);
    sqlite3_bind_double(statement, 10, measure->iteration_s.squares);
    sqlite3_bind_double(statement, 11, measure->iteration_j.mean);
    sqlite3_bind_double(statement, 12, measure->iteration_j.squares);
    return limit_profiles_run(store, statement, err);
}

int lull_limit_profile_save(struct lull_store *store, const struct lull_limit_profile *profile,
                            struct lull_error *err)
{
    int64_t id = 0;
    int result = lull_store_begin(store, err);

    if (result < 0)
        return result;
    result = insert_profile(store, profile, &id, err);
    for (uint32_t i = 0; result == 0 && i < profile->count; i++)
        result = insert_measure(store, id, i, &profile->measures[i], err);
    return lull_store_end(store, result, err);
}

/* ---- loading ----------------------------------------------------------------------------- */

static const char select_profile[] =
    "SELECT id, program, gpu_name, gpu_count, measured_s, host, aim, eta_ratio, max_power_w,"
    " slowdown_ratio, chosen, chosen_s, chosen_by FROM profile";

static void take_text(sqlite3_stmt *statement, int column, char *text_out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, column);

    snprintf(text_out, size, "%s", text != NULL ? (const char *)text : "");
}

/* Columns are taken by their place in select_profile. */
static void take_profile(sqlite3_stmt *statement, struct lull_limit_profile *profile)
{
    char aim[32];

    take_text(statement, 1, profile->program, sizeof(profile->program));
    take_text(statement, 2, profile->gpu_name, sizeof(profile->gpu_name));
    profile->gpu_count = (uint32_t)sqlite3_column_int64(statement, 3);
    profile->measured_s = sqlite3_column_int64(statement, 4);
    take_text(statement, 5, profile->host, sizeof(profile->host));
    take_text(statement, 6, aim, sizeof(aim));
    if (lull_job_aim_parse(aim, &profile->selector.aim) < 0)
        profile->count = UINT32_MAX; /* refused below */
    profile->selector.price.eta_ratio = sqlite3_column_double(statement, 7);
    profile->selector.price.max_power_w = sqlite3_column_double(statement, 8);
    profile->selector.price.gpu_count = profile->gpu_count;
    profile->selector.slowdown_ratio = sqlite3_column_double(statement, 9);
    profile->chosen = (uint32_t)sqlite3_column_int64(statement, 10);
    profile->chosen_s = sqlite3_column_int64(statement, 11);
    take_text(statement, 12, profile->chosen_by, sizeof(profile->chosen_by));
}

static void take_measure(sqlite3_stmt *statement, struct lull_limit_measure *measure)
{
    const int64_t pieces = sqlite3_column_int64(statement, 5);

    *measure = (struct lull_limit_measure){
        .point = {sqlite3_column_double(statement, 0),
                  (uint32_t)sqlite3_column_int64(statement, 1)},
        .iterations = (uint64_t)sqlite3_column_int64(statement, 2),
        .seconds = sqlite3_column_double(statement, 3),
        .joules = sqlite3_column_double(statement, 4),
        .iteration_s = {(uint64_t)pieces, sqlite3_column_double(statement, 6),
                        sqlite3_column_double(statement, 7)},
        .iteration_j = {(uint64_t)pieces, sqlite3_column_double(statement, 8),
                        sqlite3_column_double(statement, 9)},
        .is_done = true,
    };
}

static bool limit_profiles_is_possible(const struct lull_limit_measure *measure)
{
    return measure->iterations > 0 && measure->iterations < (UINT64_C(1) << 53) &&
           measure->seconds > 0.0 && isfinite(measure->seconds) && measure->joules >= 0.0 &&
           isfinite(measure->joules) && measure->point.limit_w > 0.0 &&
           isfinite(measure->point.limit_w);
}

/* A file may be damaged or edited: whatever cannot be makes the whole profile useless, since its
 * choice was made of all measures. */
static int load_measures(struct lull_store *store, int64_t id, struct lull_limit_profile *profile,
                         struct lull_error *err)
{
    sqlite3_stmt *statement = lull_store_prepare(
        store,
        "SELECT limit_w, sm_mhz, iterations, seconds, joules, pieces, mean_s, squares_s, mean_j,"
        " squares_j FROM measure WHERE profile = ? ORDER BY place",
        err);
    bool is_good = profile->count == 0;
    int result;

    if (statement == NULL)
        return LULL_E_FORMAT;
    sqlite3_bind_int64(statement, 1, id);
    while ((result = lull_store_step(store, statement, err)) == 1 && is_good) {
        is_good = profile->count < LULL_LIMIT_SEARCH_POINTS;
        if (!is_good)
            break;
        take_measure(statement, &profile->measures[profile->count]);
        is_good = limit_profiles_is_possible(&profile->measures[profile->count]);
        profile->count++;
    }
    sqlite3_finalize(statement);
    if (result >= 0 && (!is_good || profile->chosen >= profile->count || profile->gpu_count == 0))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%.120s: the profile of %.60s cannot be; see lull limit --forget",
                              lull_store_path(store), profile->program);
    return result;
}

int lull_limit_profile_load(struct lull_store *store, const char *program, const char *gpu_name,
                            uint32_t gpu_count, struct lull_limit_profile *profile_out,
                            struct lull_error *err)
{
    char sql[sizeof(select_profile) + 64];
    struct lull_limit_profile profile = {0};
    sqlite3_stmt *statement;
    int64_t id = 0;
    int result;

    snprintf(sql, sizeof(sql), "%s WHERE program = ? AND gpu_name = ? AND gpu_count = ?",
             select_profile);
    statement = lull_store_prepare(store, sql, err);
    if (statement == NULL)
        return LULL_E_FORMAT;
    sqlite3_bind_text(statement, 1, program, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, gpu_name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, gpu_count);
    result = lull_store_step(store, statement, err);
    if (result == 1) {
        id = sqlite3_column_int64(statement, 0);
        take_profile(statement, &profile);
    }
    sqlite3_finalize(statement);
    if (result == 0)
        return lull_error_set(err, -ENOENT, "no profile of %.100s on %u %.60s", program, gpu_count,
                              gpu_name);
    if (result == 1)
        result = load_measures(store, id, &profile, err);
    if (result == 0)
        *profile_out = profile;
    return result;
}

int lull_limit_profiles_walk(struct lull_store *store,
                             int (*each)(void *context, const struct lull_limit_profile *profile),
                             void *context, struct lull_error *err)
{
    char sql[sizeof(select_profile) + 64];
    sqlite3_stmt *statement;
    int result;

    snprintf(sql, sizeof(sql), "%s ORDER BY program, gpu_name, gpu_count", select_profile);
    statement = lull_store_prepare(store, sql, err);
    if (statement == NULL)
        return LULL_E_FORMAT;
    while ((result = lull_store_step(store, statement, err)) == 1) {
        struct lull_limit_profile profile = {0};

        take_profile(statement, &profile);
        result = load_measures(store, sqlite3_column_int64(statement, 0), &profile, err);
        if (result == 0)
            result = each(context, &profile);
        if (result != 0)
            break;
    }
    sqlite3_finalize(statement);
    return result;
}

int lull_limit_profiles_remove(struct lull_store *store, const char *program,
                               struct lull_error *err)
{
    sqlite3_stmt *statement =
        lull_store_prepare(store, "DELETE FROM profile WHERE program = ? RETURNING id", err);
    int count = 0;
    int result;

    if (statement == NULL)
        return LULL_E_FORMAT;
    sqlite3_bind_text(statement, 1, program, -1, SQLITE_STATIC);
    while ((result = lull_store_step(store, statement, err)) == 1)
        count++;
    sqlite3_finalize(statement);
    return result < 0 ? result : count;
}
