/*
 * Power logs that are tables: what a header's names mean is found out first, because tools put
 * units and numbers of GPUs into them; then columns.h reads the table.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace/power_log_reading.h"

enum log_field {
    TIME,
    GPU,
    MODEL,
    LIMIT,
    POWER,
    COUNTER,
    WINDOW,
    ELAPSED,
    RUN,
    DURATION,
    TOLD,  /* the energy of all GPUs in a run */
    COUNT, /* of these GPUs */
    WIDE,  /* the first of those with a GPU of their own */
    NONE = LULL_COLUMNS_FIELDS,
};

enum { MAX_WIDE = LULL_COLUMNS_FIELDS - WIDE, NAME_BYTES = 64 };

/* The meaning of a header's name. */
struct meaning {
    enum log_field field;
    bool is_energy; /* of WIDE: a counter, or the energy of a window; else a power */
    uint32_t gpu;   /* of WIDE */
    uint32_t rank;  /* of names of one field the lowest counts */
    int64_t unit;   /* a 1 in thousandths of W or J; of a time: decimal places to ns, 0: by size */
};

/* ---- names -------------------------------------------------------------------------------- */

/* Units by name; of a W or J in thousandths. */
static const struct log_unit {
    const char *name;
    int64_t milli;
    bool is_energy;
} units[] = {
    {"W", 1000, false},     {"mW", 1, false},      {"kW", 1000000, false},
    {"watts", 1000, false}, {"watt", 1000, false}, {"J", 1000, true},
    {"mJ", 1, true},        {"kJ", 1000000, true}, {"MJ", 1000000000, true},
    {"joules", 1000, true}, {"Wh", 3600000, true}, {"kWh", 3600000000, true},
    {NULL, 0, false},
};

/* Finds a unit: first with exact case, since mJ and MJ differ by case alone, then in any case. */
static const struct log_unit *power_table_find_unit(const char *name, bool is_energy)
{
    for (const struct log_unit *unit = units; unit->name != NULL; unit++)
        if (unit->is_energy == is_energy && strcmp(unit->name, name) == 0)
            return unit;
    for (const struct log_unit *unit = units; unit->name != NULL; unit++)
        if (unit->is_energy == is_energy && strcasecmp(unit->name, name) == 0)
            return unit;
    return NULL;
}

/* A name in small letters, its unit, and what is left without either, digits and marks. */
struct parted_name {
    char whole[NAME_BYTES]; /* without the unit in brackets */
    char unit[NAME_BYTES];  /* in brackets, or behind the last _ */
    char letters[NAME_BYTES];
    char digits[NAME_BYTES];
};

/* Takes the unit of a name away: what stands in brackets, or behind its last _. Returns the length
 * of what is left. */
static size_t take_unit(const char *name, struct parted_name *parted)
{
    const size_t length = strcspn(name, "[(");
    const char *unit = strrchr(name, '_');
    size_t unit_length;

    if (name[length] != '\0')
        unit = name + length;
    if (unit == NULL)
        return length;
    unit_length = strcspn(unit + 1, "])");
    if (unit_length >= NAME_BYTES)
        return length;
    memcpy(parted->unit, unit + 1, unit_length);
    if (name[length] != '\0' || power_table_find_unit(parted->unit, false) != NULL ||
        power_table_find_unit(parted->unit, true) != NULL)
        return (size_t)(unit - name);
    return length;
}

static void power_table_part(const char *name, struct parted_name *parted)
{
    const size_t whole = strcspn(name, "[(");
    size_t length;
    size_t used = 0;
    size_t letters = 0;
    size_t digits = 0;

    *parted = (struct parted_name){.unit = ""};
    length = take_unit(name, parted);
    for (size_t i = 0; i < whole && used + 1 < NAME_BYTES; i++) {
        const char c = (char)tolower((unsigned char)name[i]);

        parted->whole[used++] = c;
        if (i < length && isalpha((unsigned char)c))
            parted->letters[letters++] = c;
        else if (i < length && isdigit((unsigned char)c))
            parted->digits[digits++] = c;
    }
    while (used > 0 && strchr(" \t", parted->whole[used - 1]) != NULL)
        parted->whole[--used] = '\0';
}

/* Finds the unit of a quantity; typical: of a name without one. */
static int64_t power_table_unit_of(const struct parted_name *parted, bool is_energy,
                                   int64_t typical)
{
    const struct log_unit *const unit = power_table_find_unit(parted->unit, is_energy);

    return unit != NULL ? unit->milli : typical;
}

/* Decimal places from the unit in a time column's name to ns; 0: no unit in it. */
static int64_t places_of(const struct parted_name *parted)
{
    const char *const unit = parted->unit;

    if (strcasecmp(unit, "s") == 0 || strcasecmp(unit, "sec") == 0)
        return 9;
    if (strcasecmp(unit, "ms") == 0)
        return 6;
    if (strcasecmp(unit, "us") == 0)
        return 3;
    return 0;
}

/* Names that mean one thing, whatever their unit. */
static bool find_plain(const struct parted_name *parted, struct meaning *meaning)
{
    static const struct {
        const char *name;
        enum log_field field;
        uint32_t rank;
    } names[] = {
        {"timestamp", TIME, 0},
        {"time", TIME, 1},
        {"datetime", TIME, 2},
        {"date_time", TIME, 3},
        {"time_s", TIME, 4},
        {"time_ms", TIME, 5},
        {"time_us", TIME, 6},
        {"unix_time", TIME, 7},
        {"epoch", TIME, 8},
        {"ts", TIME, 9},
        {"elapsed_s", TIME, 10},
        {"elapsed_ms", TIME, 11},
        {"index", GPU, 0},
        {"gpu", GPU, 1},
        {"gpu_index", GPU, 2},
        {"gpu_id", GPU, 3},
        {"device", GPU, 4},
        {"gpu_idx", GPU, 5},
        {"gpu_uuid", GPU, 6},
        {"uuid", GPU, 7},
        {"pci.bus_id", GPU, 8},
        {"gpu_bus_id", GPU, 9},
        {"gpu.bus_id", GPU, 10},
        {"name", MODEL, 0},
        {"gpu_name", MODEL, 1},
        {"gpu_model", MODEL, 2},
        {"power.limit", LIMIT, 0},
        {"power_limit", LIMIT, 1},
        {"power_limit_w", LIMIT, 2},
        {"enforced.power.limit", LIMIT, 3},
        {"power.max_limit", LIMIT, 4},
        {"window_name", WINDOW, 0},
        {"elapsed_time", ELAPSED, 0},
        {"run_id", RUN, 0},
        {"duration", DURATION, 0},
        {"gpu_energy", TOLD, 0},
        {"gpu_count", COUNT, 0},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(parted->whole, names[i].name) != 0)
            continue;
        meaning->field = names[i].field;
        meaning->rank = names[i].rank;
        meaning->unit =
            names[i].field == LIMIT ? power_table_unit_of(parted, false, 1000) : places_of(parted);
        return true;
    }
    return false;
}

/* Names of a power, or of a counter of energy. Longer names are not accepted, because their meaning
 * would be a guess. */
static bool find_quantity(const struct parted_name *parted, struct meaning *meaning)
{
    static const struct {
        const char *letters;
        bool is_energy;
    } names[] = {
        {"powerdrawinstant", false},
        {"powerdraw", false},
        {"powerdrawaverage", false},
        {"power", false},
        {"gpupower", false},
        {"powerusage", false},
        {"boardpower", false},
        {"socketpower", false},
        {"averagesocketpower", false},
        {"pwr", false},
        {"watts", false},
        {"draw", false},
        {"totalenergyconsumption", true},
        {"totalenergy", true},
        {"energycounter", true},
        {"cumulativeenergy", true},
        {"energyconsumption", true},
        {"totec", true},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(parted->letters, names[i].letters) != 0)
            continue;
        meaning->field = names[i].is_energy ? COUNTER : POWER;
        meaning->rank = (uint32_t)i;
        meaning->unit =
            power_table_unit_of(parted, names[i].is_energy, names[i].is_energy ? 1 : 1000);
        return true;
    }
    return false;
}

/* Names with the number of a GPU: gpu0_power, power1, GPU 2 power (W), gpu3_energy, gpu4. */
static bool find_wide(const struct parted_name *parted, struct meaning *meaning)
{
    static const char *const powers[] = {"power", "gpupower", "powergpu", "gpu", "gpupowerdraw"};
    static const char *const energies[] = {"gpuenergy", "energygpu", "energy"};
    const char *digits = parted->digits;
    uint32_t gpu = 0;

    if (digits[0] == '\0' || lull_text_take_digits(&digits, LULL_POWER_LOG_GPUS, &gpu) < 0)
        return false;
    meaning->field = WIDE;
    meaning->gpu = gpu;
    meaning->rank = 0;
    for (size_t i = 0; i < sizeof(powers) / sizeof(powers[0]); i++)
        if (strcmp(parted->letters, powers[i]) == 0) {
            meaning->is_energy = false;
            meaning->unit = power_table_unit_of(parted, false, 1000);
            return true;
        }
    for (size_t i = 0; i < sizeof(energies) / sizeof(energies[0]); i++)
        if (strcmp(parted->letters, energies[i]) == 0) {
            meaning->is_energy = true;
            meaning->unit =
                power_table_unit_of(parted, true, 0); /* of a window J, of a counter mJ */
            return true;
        }
    return false;
}

static struct meaning power_table_meaning_of(const char *name)
{
    struct meaning meaning = {.field = NONE};
    struct parted_name parted;

    power_table_part(name, &parted);
    if (parted.digits[0] != '\0'
            ? !find_wide(&parted, &meaning)
            : !find_plain(&parted, &meaning) && !find_quantity(&parted, &meaning))
        meaning.field = NONE;
    return meaning;
}

/* ---- the header --------------------------------------------------------------------------- */

/* The table while it is read. */
struct table_reading {
    struct lull_power_log_state *state;
    struct lull_column known[LULL_COLUMNS_FIELDS + 1];
    struct meaning meanings[LULL_COLUMNS_FIELDS]; /* of the fields */
    uint32_t count;                               /* of known */
    uint32_t wide;
    char *names;                         /* names that known refers to */
    bool has_units[LULL_COLUMNS_FIELDS]; /* cells of the field have had a unit */
    int64_t day_ns;
    int64_t last_ns;
};

static bool power_table_has(const struct table_reading *reading, uint32_t field)
{
    for (uint32_t i = 0; i < reading->count; i++)
        if (reading->known[i].field == field)
            return true;
    return false;
}

/* Adds a name, unless a name of lower rank already gives its field. */
static void power_table_add_name(struct table_reading *reading, const char *name,
                                 struct meaning meaning)
{
    uint32_t at = reading->count;

    if (meaning.field == WIDE) {
        if (reading->wide == MAX_WIDE)
            return;
        meaning.field = (enum log_field)(WIDE + reading->wide++);
    }
    for (uint32_t i = 0; i < reading->count; i++)
        if (reading->known[i].field == meaning.field) {
            if (reading->meanings[meaning.field].rank <= meaning.rank)
                return;
            at = i;
        }
    reading->known[at] = (struct lull_column){name, meaning.field, 0, false};
    reading->meanings[meaning.field] = meaning;
    reading->count += at == reading->count;
}

/* Finds the meaning of a header's names when split at this separator. Errors: -ENOMEM. */
static int find_names(struct table_reading *reading, const char *line, char separator)
{
    char *rest;

    free(reading->names);
    reading->names = strdup(line);
    reading->count = 0;
    reading->wide = 0;
    if (reading->names == NULL)
        return -ENOMEM;
    for (rest = reading->names; rest != NULL;) {
        const char *const name = lull_lines_cell_of(&rest, separator);
        const struct meaning meaning = power_table_meaning_of(name);

        if (meaning.field != NONE)
            power_table_add_name(reading, name, meaning);
    }
    reading->known[reading->count] = (struct lull_column){NULL};
    return 0;
}

/* Finds the separator with which most names have a meaning. */
static int power_table_read_names(struct table_reading *reading, const char *line)
{
    static const char separators[] = {',', ';', '\t', '|'};
    char best = ',';
    uint32_t most = 0;

    line += *line == '#';
    for (size_t i = 0; i < sizeof(separators); i++) {
        if (find_names(reading, line, separators[i]) < 0)
            return -ENOMEM;
        if (reading->count > most) {
            most = reading->count;
            best = separators[i];
        }
    }
    return find_names(reading, line, best);
}

static int power_table_check_names(const struct table_reading *reading, const char *line,
                                   struct lull_error *err)
{
    const char *const path = reading->state->path;

    if ((power_table_has(reading, WINDOW) && power_table_has(reading, ELAPSED) &&
         reading->wide > 0) ||
        (power_table_has(reading, DURATION) && power_table_has(reading, TOLD)))
        return 0;
    if (!power_table_has(reading, POWER) && !power_table_has(reading, COUNTER) &&
        reading->wide == 0)
        return lull_error_set(
            err, LULL_E_FORMAT,
            "%s: line 1, header: missing power or energy counter, such as power.draw [W], power_w, "
            "gpu0_power or total_energy_mj (nvidia-smi: log without noheader); it is '%.120s'",
            path, line);
    if (!power_table_has(reading, TIME) && reading->state->interval_ns == 0)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line 1, header: missing time, such as timestamp or time_s; use "
                              "--every S, the time between two rows of a GPU; it is '%.120s'",
                              path, line);
    return 0;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void note_broken_line(void *context, size_t line)
{
    struct table_reading *const reading = context;

    lull_power_log_note_broken(reading->state, line);
}

/* Parses a quantity in W or J. Returns false where there is none, and counts why. A cell that lacks
 * the unit of the cells above it was cut off at the end of the log. */
static bool find_quantity_of(struct table_reading *reading, const struct lull_columns *columns,
                             uint32_t field, bool is_energy, int64_t milli, double *value_out)
{
    char name[LULL_COLUMNS_UNIT];
    double value = 0.0;

    if (!lull_columns_has(columns, field))
        return false;
    if (!lull_columns_has_value(columns, field)) {
        reading->state->log->missing++;
        return false;
    }
    if (lull_columns_quantity(columns, field, &value, name) == 0) {
        const struct log_unit *const unit = power_table_find_unit(name, is_energy);

        if (unit != NULL || (name[0] == '\0' && !reading->has_units[field])) {
            reading->has_units[field] = unit != NULL;
            *value_out = value * (double)(unit != NULL ? unit->milli : milli) * 1e-3;
            return true;
        }
    }
    lull_power_log_note_broken(reading->state, columns->line_of[field]);
    return false;
}

/* Finds the time of a row. A time of day that falls has passed midnight. False: it is none. */
static bool power_table_find_time(struct table_reading *reading, const struct lull_columns *columns,
                                  size_t row, int64_t *time_ns_out)
{
    const int64_t half_day_ns = INT64_C(43200000000000);
    const char *cell;

    if (!lull_columns_has(columns, TIME)) {
        *time_ns_out = (int64_t)row * reading->state->interval_ns;
        return true;
    }
    cell = columns->cells[TIME];
    if (lull_power_log_time_of(cell, (int)reading->meanings[TIME].unit, time_ns_out) < 0)
        return false;
    if (strchr(cell, ':') == NULL || lull_timestamp_elapsed(cell, time_ns_out) < 0)
        return true;
    *time_ns_out += reading->day_ns;
    if (*time_ns_out < reading->last_ns - half_day_ns) {
        reading->day_ns += 2 * half_day_ns;
        *time_ns_out += 2 * half_day_ns;
    }
    reading->last_ns = *time_ns_out;
    return true;
}

static const char *power_table_cell_or_empty(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) ? columns->cells[field] : "";
}

/* Adds the power and the counter of a row whose GPU has a row of its own. */
static int add_long(struct table_reading *reading, const struct lull_columns *columns,
                    struct lull_error *err)
{
    struct lull_power_log_state *const state = reading->state;
    struct lull_energy_reading taken = {.time_ns = 0};
    double limit_w = 0.0;
    size_t gpu = 0;
    int rc = lull_power_log_find_gpu(state, power_table_cell_or_empty(columns, GPU),
                                     power_table_cell_or_empty(columns, MODEL), &gpu, err);

    if (rc < 0)
        return rc;
    if (!power_table_find_time(reading, columns, state->log->gpus[gpu].count, &taken.time_ns)) {
        lull_power_log_note_broken(state, columns->line_of[TIME]);
        return 0;
    }
    if (lull_columns_has_value(columns, LIMIT) &&
        find_quantity_of(reading, columns, LIMIT, false, reading->meanings[LIMIT].unit, &limit_w))
        lull_power_log_note_limit(&state->log->gpus[gpu], limit_w);
    taken.has_power = find_quantity_of(reading, columns, POWER, false,
                                       reading->meanings[POWER].unit, &taken.power_w) &&
                      lull_power_log_can_be(state, taken.power_w, state->log->gpus[gpu].highest_w);
    taken.has_counter = find_quantity_of(reading, columns, COUNTER, true,
                                         reading->meanings[COUNTER].unit, &taken.counter_j) &&
                        taken.counter_j > 0.0;
    return lull_power_log_add(state, gpu, &taken, err);
}

/* Adds the values of the columns that name their own GPU. */
static int add_wide(struct table_reading *reading, const struct lull_columns *columns,
                    struct lull_error *err)
{
    enum { MILLI_J = 1 };
    struct lull_power_log_state *const state = reading->state;

    for (uint32_t i = 0; i < reading->wide; i++) {
        const struct meaning *const meaning = &reading->meanings[WIDE + i];
        const int64_t unit = meaning->unit != 0 ? meaning->unit : MILLI_J;
        struct lull_energy_reading taken = {.time_ns = 0};
        double value = 0.0;
        char name[16];
        size_t gpu = 0;
        int rc;

        snprintf(name, sizeof(name), "%u", meaning->gpu);
        rc = lull_power_log_find_gpu(state, name, power_table_cell_or_empty(columns, MODEL), &gpu,
                                     err);
        if (rc < 0)
            return rc;
        if (!power_table_find_time(reading, columns, state->log->gpus[gpu].count, &taken.time_ns)) {
            lull_power_log_note_broken(state, columns->line_of[TIME]);
            return 0;
        }
        if (!find_quantity_of(reading, columns, WIDE + i, meaning->is_energy, unit, &value))
            continue;
        taken.has_counter = meaning->is_energy && value > 0.0;
        taken.counter_j = value;
        taken.has_power = !meaning->is_energy &&
                          lull_power_log_can_be(state, value, state->log->gpus[gpu].highest_w);
        taken.power_w = value;
        rc = lull_power_log_add(state, gpu, &taken, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int power_table_read_row(const struct lull_columns *columns, void *context,
                                struct lull_error *err)
{
    struct table_reading *const reading = context;

    reading->state->log->rows++;
    if (reading->wide > 0 && !power_table_has(reading, POWER) && !power_table_has(reading, COUNTER))
        return add_wide(reading, columns, err);
    return add_long(reading, columns, err);
}

/* ---- windows ------------------------------------------------------------------------------ */

/* A row of Zeus's log: a window, and the energy of each GPU in it. */
static int read_window(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    enum { J = 1000 };
    struct table_reading *const reading = context;
    struct lull_power_log_state *const state = reading->state;
    double seconds = 0.0;

    state->log->rows++;
    if (lull_columns_real(columns, ELAPSED, 0.0, 1e9, "", &seconds, NULL) < 0) {
        lull_power_log_note_broken(state, columns->line_of[ELAPSED]);
        return 0;
    }
    for (uint32_t i = 0; i < reading->wide; i++) {
        const struct meaning *const meaning = &reading->meanings[WIDE + i];
        double energy_j = 0.0;
        char name[16];
        size_t gpu = 0;
        int rc;

        snprintf(name, sizeof(name), "%u", meaning->gpu);
        rc = lull_power_log_find_gpu(state, name, "", &gpu, err);
        if (rc == 0 && meaning->is_energy &&
            find_quantity_of(reading, columns, WIDE + i, true,
                             meaning->unit != 0 ? meaning->unit : J, &energy_j))
            rc = lull_power_log_add_window(state, gpu, columns->cells[WINDOW], seconds, energy_j, 1,
                                           err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A row of CodeCarbon's emissions.csv: a run, or the state of one that continues, which a later row
 * replaces. */
static int read_run(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    enum { MAX_GPUS = 1 << 20 };
    const int64_t kwh_milli = INT64_C(3600000000);
    struct table_reading *const reading = context;
    struct lull_power_log_state *const state = reading->state;
    struct lull_power_log_gpu *all;
    const char *const name = power_table_cell_or_empty(columns, RUN);
    double seconds = 0.0;
    double energy_j = 0.0;
    int64_t gpus = 0;
    size_t gpu = 0;
    int rc =
        lull_power_log_find_gpu(state, "all", power_table_cell_or_empty(columns, MODEL), &gpu, err);

    state->log->rows++;
    if (rc < 0)
        return rc;
    if (lull_columns_real(columns, DURATION, 0.0, 1e9, "", &seconds, NULL) < 0) {
        lull_power_log_note_broken(state, columns->line_of[DURATION]);
        return 0;
    }
    if (lull_columns_has_value(columns, COUNT) &&
        lull_columns_integer(columns, COUNT, 0, MAX_GPUS, "", &gpus, NULL) < 0)
        lull_power_log_note_broken(state, columns->line_of[COUNT]);
    if (!find_quantity_of(reading, columns, TOLD, true, kwh_milli, &energy_j))
        return 0;
    all = &state->log->gpus[gpu];
    if (all->window_count > 0 && name[0] != '\0' &&
        strncmp(all->windows[all->window_count - 1].name, name, LULL_POWER_LOG_NAME - 1) == 0)
        all->window_count--;
    return lull_power_log_add_window(state, gpu, name, seconds, energy_j, (uint32_t)gpus, err);
}

/* ---- whole table -------------------------------------------------------------------------- */

int lull_power_log_read_table(struct lull_power_log_state *state, struct lull_lines *lines,
                              char *line, struct lull_error *err)
{
    struct table_reading reading = {.state = state, .last_ns = INT64_MIN / 2};
    struct lull_table table = {reading.known,   0, "lull-energy(1)", NULL, power_table_read_row,
                               note_broken_line};
    int rc;

    if (power_table_read_names(&reading, line) < 0)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", state->path);
    rc = power_table_check_names(&reading, line, err);
    if (rc < 0)
        goto end;
    if (power_table_has(&reading, WINDOW) && power_table_has(&reading, ELAPSED)) {
        table.read = read_window;
        state->log->format = "Zeus";
        state->log->is_windows = true;
    } else if (power_table_has(&reading, DURATION) && power_table_has(&reading, TOLD)) {
        table.read = read_run;
        state->log->format = "CodeCarbon";
        state->log->is_windows = true;
    }
    lull_lines_back(lines);
    rc = lull_columns_read_lines(lines, &table, &reading, err);
end:
    free(reading.names);
    return rc;
}
