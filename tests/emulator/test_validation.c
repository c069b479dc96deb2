/*
 * The validation targets V1-V6 and V10-V13 of the GPU model: the emulator against measurements.
 * Needs the measured data beside the source tree; skipped without. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "check.h"

#include <unistd.h>
#include <zlib.h>

#include "emulator/physics/physics.h"

enum { MAX_ROWS = 4000, MOST_KERNELS = 100, LINE_SIZE = 512, MOST_FIELDS = 16 };

struct row {
    char gpu[24];
    char kernel[48];
    double mhz;
    double time_s; /* 0: not measured */
    double power_w;
};

struct fit {
    char gpu[24];
    struct lull_gpu_profile profile;
    char kernel[48];
    double time_s;
    double valley_mhz;
    double saving_percent;
};

static struct row rows[MAX_ROWS];
static size_t row_count;
static struct fit fits[MOST_KERNELS];
static size_t fit_count;
static struct lull_physics gpu;

/* ---- data ---- */

static int split(char *line, char **fields)
{
    int count = 0;

    line[strcspn(line, "\r\n")] = '\0';
    for (char *at = line; at != NULL && count < MOST_FIELDS; count++)
        fields[count] = strsep(&at, ",");
    return count;
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Calls take for every line but the first. */
static int read_table(const char *name, void (*take)(char **fields))
{
    char path[512];
    char line[LINE_SIZE];
    char *fields[MOST_FIELDS] = {0};
    gzFile file;

    snprintf(path, sizeof(path), "%s/%s", LULL_SHARED_DATA, name);
    file = gzopen(path, "r");
    if (file == NULL)
        return -1;
    gzgets(file, line, sizeof(line));
    while (gzgets(file, line, sizeof(line)) != NULL)
        if (split(line, fields) > 3)
            take(fields);
    gzclose(file);
    return 0;
}

static void take_row(char **fields)
{
    struct row *row = &rows[row_count];

    if (strncmp(fields[0], "A100", 4) != 0 || row_count == MAX_ROWS)
        return;
    copy_text(row->gpu, sizeof(row->gpu), fields[0]);
    copy_text(row->kernel, sizeof(row->kernel), fields[2]);
    row->mhz = atof(fields[3]);
    row->time_s = atof(fields[5]);
    row->power_w = atof(fields[6]);
    row_count++;
}

static void take_fit(char **fields)
{
    struct fit *fit = &fits[fit_count];

    if (fit_count == MOST_KERNELS)
        return;
    copy_text(fit->gpu, sizeof(fit->gpu), fields[0]);
    copy_text(fit->kernel, sizeof(fit->kernel), fields[1]);
    fit->profile = (struct lull_gpu_profile){
        .base_w = atof(fields[3]), .slope_w = atof(fields[4]), .memory_ratio = atof(fields[6])};
    fit->time_s = atof(fields[7]);
    fit->valley_mhz = atof(fields[9]);
    fit->saving_percent = atof(fields[10]);
    fit_count++;
}

static const struct fit *find_fit(const char *gpu_name, const char *kernel)
{
    for (size_t i = 0; i < fit_count; i++)
        if (strcmp(fits[i].gpu, gpu_name) == 0 && strcmp(fits[i].kernel, kernel) == 0)
            return &fits[i];
    return NULL;
}

static const struct lull_gpu_model *find_model(const char *name)
{
    const struct lull_gpu_model *model = lull_gpu_model_find(name, (uint32_t)strlen(name));

    assert_non_null(model);
    return model;
}

/*
 * The 25 kernels were measured on units whose idle power differs by 16 W; each fit contains its own
 * unit's, so the floor of one particular unit must not be put under all of them.
 */
static struct lull_gpu_model model_without_floor(const char *name)
{
    struct lull_gpu_model model = *find_model(name);

    for (uint32_t i = 0; i < model.active_idle_w.count; i++)
        model.active_idle_w.points[i].value = 0;
    return model;
}

/* ---- V1 to V3: power, time and valley of the A100 ---- */

static void test_v1_a100_power_of_25_kernels(void **state)
{
    const struct lull_gpu_model model = model_without_floor("A100-SXM4-80GB");
    static double errors[MAX_ROWS];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        const struct fit *fit = find_fit(rows[i].gpu, rows[i].kernel);

        if (strcmp(rows[i].gpu, "A100_TTU") != 0 || fit == NULL)
            continue;
        const double power_w = lull_gpu_model_kernel_w(&model, &fit->profile, rows[i].mhz);

        errors[count++] = 100 * fabs(power_w / rows[i].power_w - 1);
    }
    assert_int_equal(count, 1525);
    check_within("V1 power MAPE, percent", mean(errors, count), 0, 2);
    check_within("V1 power p95, percent", quantile(errors, count, 0.95), 0, 6);
}

static double power_errors[MAX_ROWS];
static double time_errors[MAX_ROWS];
static size_t stage_count;

static void take_stage(char **fields)
{
    const struct lull_gpu_model *model = find_model("A100-SXM4-80GB");
    const double mhz = atof(fields[2]);
    char kernel[48];
    const struct fit *fit;

    snprintf(kernel, sizeof(kernel), "gpt3-175b:stage%s:%s", fields[0], fields[1]);
    fit = find_fit("A100_LLM", kernel);
    if (fit == NULL || mhz < 855 || mhz > 1335)
        return;
    const double time_s = atof(fields[3]);
    const double power_w = atof(fields[4]) / time_s;
    const double speed = lull_gpu_model_speed(model, fit->profile.memory_ratio, mhz);

    power_errors[stage_count] =
        100 * fabs(lull_gpu_model_kernel_w(model, &fit->profile, mhz) / power_w - 1);
    time_errors[stage_count] = 100 * fabs(fit->time_s / speed / time_s - 1);
    stage_count++;
}

static void test_v2_a100_gpt3_stages(void **state)
{
    (void)state;
    if (read_table("../pipeline/profiles/gpt3-175b_a100_sxm_bf16.csv", take_stage) < 0) {
        print_message("skipped: no ../shared/data/pipeline\n");
        skip();
    }
    assert_true(stage_count >= 100);
    check_within("V2 power MAPE, percent", mean(power_errors, stage_count), 0, 1.5);
    check_within("V2 time MAPE, percent", mean(time_errors, stage_count), 0, 0.5);
}

/* Of a kernel's rows: the measured minimum and the energy at the clock the model would choose. */
struct valley {
    double best_mhz;
    double best_j;
    double chosen_mhz;
    double chosen_j;
    double top_j;
};

static struct valley find_valley(const struct lull_gpu_model *model, const struct fit *fit)
{
    struct valley valley = {.best_j = HUGE_VAL};
    double lowest = HUGE_VAL;

    for (size_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].gpu, fit->gpu) != 0 || strcmp(rows[i].kernel, fit->kernel) != 0)
            continue;
        const double measured_j = rows[i].power_w * rows[i].time_s;
        const double model_j = lull_gpu_model_kernel_w(model, &fit->profile, rows[i].mhz) /
                               lull_gpu_model_speed(model, fit->profile.memory_ratio, rows[i].mhz);

        if (measured_j < valley.best_j) {
            valley.best_j = measured_j;
            valley.best_mhz = rows[i].mhz;
        }
        if (model_j < lowest) {
            lowest = model_j;
            valley.chosen_mhz = rows[i].mhz;
            valley.chosen_j = measured_j;
        }
        if (rows[i].mhz == model->sm_max_mhz)
            valley.top_j = measured_j;
    }
    return valley;
}

static void check_valley(const struct lull_gpu_model *model, const char *kernel)
{
    const struct fit *fit = find_fit("A100_TTU", kernel);
    const struct valley valley = find_valley(model, fit);
    const double saving = 100 * (1 - valley.chosen_j / valley.top_j);
    char name[64];

    snprintf(name, sizeof(name), "V3 %s valley, MHz", kernel);
    check_within(name, valley.chosen_mhz, fit->valley_mhz - 45, fit->valley_mhz + 45);
    snprintf(name, sizeof(name), "V3 %s saving, percent", kernel);
    check_within(name, saving, fit->saving_percent - 3, fit->saving_percent + 3);
}

static void test_v3_a100_valley(void **state)
{
    const struct lull_gpu_model model = model_without_floor("A100-SXM4-80GB");
    double excess[MOST_KERNELS];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < fit_count; i++) {
        if (strcmp(fits[i].gpu, "A100_TTU") != 0)
            continue;
        const struct valley valley = find_valley(&model, &fits[i]);

        excess[count++] = 100 * (valley.chosen_j / valley.best_j - 1);
    }
    assert_int_equal(count, 25);
    check_within("V3 energy above the measured minimum, median percent",
                 quantile(excess, count, 0.5), 0, 1.5);
    check_valley(&model, "dgemm");
    check_valley(&model, "lbm");
}

/* ---- running kernels on the emulated GPU ---- */

static void lock_at_once(double mhz)
{
    const uint32_t step = lull_gpu_model_nearest_step(&gpu.model, mhz);
    const struct lull_clock_setting lock = {.is_locked = true, .max_step = step};

    lull_physics_ask_clocks(&gpu, &lock, 0);
    lull_physics_advance(&gpu, gpu.now_ns);
}

/* Mean power and work per second of a long kernel, settled (mhz 0: not locked). */
static void run_settled(const struct lull_gpu_model *model, const struct lull_gpu_profile *profile,
                        double mhz, double limit_w, double *power_out, double *rate_out)
{
    const double warm_s = 200; /* ten time constants of heat */
    const double run_s = 20;
    struct lull_physics_kernel *kernel;
    double energy_j;
    double work_s;
    int context;

    lull_physics_init(&gpu, model, 0, 0);
    lull_physics_set_limit(&gpu, limit_w);
    context = lull_physics_open(&gpu, 1, 0);
    if (mhz > 0)
        lock_at_once(mhz);
    lull_physics_launch(&gpu, context, 1e6, profile);
    lull_physics_advance(&gpu, S(warm_s));
    kernel = &gpu.contexts[context].kernels[0];
    energy_j = lull_physics_energy_j(&gpu);
    work_s = kernel->work_s; /* folded at the control tick that falls on this time */
    lull_physics_advance(&gpu, S(warm_s + run_s));
    *power_out = (lull_physics_energy_j(&gpu) - energy_j) / run_s;
    *rate_out = (work_s - kernel->work_s) / run_s;
}

static void test_v4_a100_pcie_stream(void **state)
{
    const struct lull_gpu_model *model = find_model("A100-PCIE-80GB");
    const struct lull_gpu_profile *stream = lull_gpu_model_profile(model, "stream");
    double power_low;
    double power_high;
    double rate_low;
    double rate_high;

    (void)state;
    run_settled(model, stream, 1005, 300, &power_low, &rate_low);
    run_settled(model, stream, 1410, 300, &power_high, &rate_high);
    check_within("V4 energy at 1005 against 1410, percent",
                 100 * (power_low / rate_low / (power_high / rate_high) - 1), -39, -33);
    check_within("V4 time, percent", 100 * (rate_high / rate_low - 1), -1, 1);
}

/* The clock at which the settled kernel draws that power, by the static law. */
static double static_clock(const struct lull_gpu_model *model,
                           const struct lull_gpu_profile *profile, double power_w)
{
    double low = model->sm_min_mhz;
    double high = model->sm_max_mhz;

    while (high - low > 0.01) {
        const double middle = (low + high) / 2;

        if (lull_gpu_model_kernel_w(model, profile, middle) < power_w)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double capped_time_error(const char *name, const char *kernel, double limit_w)
{
    const struct lull_gpu_model *model = find_model(name);
    const struct lull_gpu_profile *profile = lull_gpu_model_profile(model, kernel);
    double power_w;
    double rate;
    double expected;

    run_settled(model, profile, 0, limit_w, &power_w, &rate);
    check_within("   settled power / limit", power_w / limit_w, model->limit_settle_ratio - 0.003,
                 model->limit_settle_ratio + 0.003);
    expected =
        lull_gpu_model_speed(model, profile->memory_ratio,
                             static_clock(model, profile, limit_w * model->limit_settle_ratio));
    return 100 * (expected / rate - 1);
}

static void test_v5_static_law_under_a_limit(void **state)
{
    (void)state;
    check_within("V5 V100 at 200 W, time error percent",
                 capped_time_error("V100-PCIE-32GB", "dgemm", 200), -1.5, 1.5);
    check_within("V5 A100 at 300 W, time error percent",
                 capped_time_error("A100-SXM4-80GB", "llm_fwd", 300), -1.5, 1.5);
    check_within("V5 A40 at 200 W, time error percent", capped_time_error("A40", "llm_fwd", 200),
                 -1.5, 1.5);
}

static void test_v6_hopper_loses_under_a_cap(void **state)
{
    const struct lull_gpu_model *model = find_model("H200-SXM");
    const struct lull_gpu_profile *kernel = lull_gpu_model_profile(model, "dgemm_firestarter");
    double capped_w;
    double capped_rate;
    double locked_w;
    double locked_rate;

    (void)state;
    run_settled(model, kernel, 0, 600, &capped_w, &capped_rate);
    check_within(
        "V6 capped run below the static law, percent",
        100 * (1 - capped_rate / (static_clock(model, kernel, capped_w) / model->sm_max_mhz)), 1.75,
        4.75);
    run_settled(model, kernel, capped_rate * model->sm_max_mhz, 700, &locked_w, &locked_rate);
    check_within("V6 rate of the lock / rate of the cap", locked_rate / capped_rate, 0.99, 1.01);
    check_within("V6 power saved by locking, percent", 100 * (1 - locked_w / capped_w), 3, 12);
}

/* ---- V10: switching ---- */

static void test_v10_v100_switching_quantiles(void **state)
{
    enum { transitions = 4000 };
    const struct lull_gpu_model *model = find_model("V100-SXM2-16GB");
    static double api[transitions];
    static double settle[transitions];
    static double total[transitions];
    int64_t now_ns = 0;

    (void)state;
    lull_physics_init(&gpu, model, 1, now_ns);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    for (int i = 0; i < transitions; i++) {
        const double mhz = 412.5 + 277.5 * (i % 4);
        const uint32_t step = lull_gpu_model_nearest_step(model, mhz);
        const struct lull_clock_setting lock = {.is_locked = true, .max_step = step};
        int64_t asked_ns;

        api[i] = lull_physics_draw_api_ms(model, &gpu.random);
        asked_ns = now_ns + MS(api[i]);
        lull_physics_advance(&gpu, asked_ns);
        lull_physics_ask_clocks(&gpu, &lock, 1);
        for (now_ns = asked_ns; lull_physics_published_mhz(&gpu) != (uint32_t)mhz;
             now_ns += MS(0.05))
            lull_physics_advance(&gpu, now_ns);
        settle[i] = (double)(now_ns - asked_ns) * 1e-6;
        total[i] = api[i] + settle[i];
        now_ns += MS(100);
    }
    check_within("V10 call p50, ms", quantile(api, transitions, 0.5), 4.5 * 0.95, 4.5 * 1.05);
    check_within("V10 call p99, ms", quantile(api, transitions, 0.99), 11.4 * 0.85, 11.4 * 1.15);
    check_within("V10 settle p50, ms", quantile(settle, transitions, 0.5), 20.1 * 0.95,
                 20.1 * 1.05);
    check_within("V10 settle p99, ms", quantile(settle, transitions, 0.99), 27.7 * 0.85,
                 27.7 * 1.15);
    check_within("V10 total p50, ms", quantile(total, transitions, 0.5), 24.8 * 0.95, 24.8 * 1.05);
    check_within("V10 total p99, ms", quantile(total, transitions, 0.99), 36.7 * 0.85, 36.7 * 1.15);
}

/* ---- V11 to V13: readings ---- */

static void test_v11_hopper_reads_a_one_second_average(void **state)
{
    const struct lull_gpu_model *model = find_model("H100-SXM5");
    const struct lull_gpu_profile *kernel = lull_gpu_model_profile(model, "dgemm_firestarter");
    double before_w;
    double after_w;
    double power_w;
    double rate;
    int64_t time_ns;

    (void)state;
    lull_physics_init(&gpu, model, 0, 0);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    lock_at_once(960);
    lull_physics_advance(&gpu, S(3));
    before_w = lull_physics_power_w(&gpu);
    lull_physics_launch(&gpu, 0, 1000, kernel);
    after_w = lull_physics_power_w(&gpu);
    for (time_ns = S(3); gpu.usage.published_w < before_w + 0.95 * (after_w - before_w);
         time_ns += MS(1))
        lull_physics_advance(&gpu, time_ns);
    check_within("V11 95 % of a step after, s", (double)(time_ns - S(3)) * 1e-9, 0.85, 1.05);
    run_settled(model, kernel, 0, 500, &power_w, &rate);
    check_within("V11 settled power / limit", power_w / 500, 0.994, 1.0);
}

static double waiting_power_w(double mhz)
{
    lull_physics_init(&gpu, find_model("A100-SXM4-40GB"), 0, 0);
    assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
    lock_at_once(mhz);
    lull_physics_transfer_begin(&gpu, 0, 1e15, 3, 4); /* few SMs, a slow link: it mostly waits */
    lull_physics_advance(&gpu, S(100));
    return lull_physics_power_w(&gpu);
}

static void test_v12_communication_power(void **state)
{
    (void)state;
    check_within("V12 at 1410 MHz, W", waiting_power_w(1410), 79, 89);
    check_within("V12 at 1200 MHz, W", waiting_power_w(1200), 64.5, 74.5);
}

static void test_v13_energy_counter(void **state)
{
    const char *const names[] = {"A100-SXM4-40GB", "V100-SXM2-16GB", "H100-SXM5"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const int64_t step_ns = MS(0.1);
        double integral_j = 0;
        uint64_t begin_mj;

        lull_physics_init(&gpu, find_model(names[i]), 0, 0);
        assert_int_equal(lull_physics_open(&gpu, 1, 0), 0);
        lull_physics_launch(&gpu, 0, 3, lull_gpu_model_profile(&gpu.model, NULL));
        lull_physics_advance(&gpu, S(1));
        begin_mj = lull_physics_published_mj(&gpu);
        for (int64_t t = S(1); t < S(6); t += step_ns) {
            lull_physics_advance(&gpu, t + step_ns / 2);
            integral_j += lull_physics_power_w(&gpu) * (double)step_ns * 1e-9;
        }
        lull_physics_advance(&gpu, S(6));
        check_within(
            names[i],
            100 * ((double)(lull_physics_published_mj(&gpu) - begin_mj) * 1e-3 / integral_j - 1),
            -0.5, 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1_a100_power_of_25_kernels),
        cmocka_unit_test(test_v2_a100_gpt3_stages),
        cmocka_unit_test(test_v3_a100_valley),
        cmocka_unit_test(test_v4_a100_pcie_stream),
        cmocka_unit_test(test_v5_static_law_under_a_limit),
        cmocka_unit_test(test_v6_hopper_loses_under_a_cap),
        cmocka_unit_test(test_v10_v100_switching_quantiles),
        cmocka_unit_test(test_v11_hopper_reads_a_one_second_average),
        cmocka_unit_test(test_v12_communication_power),
        cmocka_unit_test(test_v13_energy_counter),
    };

    if (read_table("measured_rows.csv.gz", take_row) < 0 ||
        read_table("fit_kernel.csv", take_fit) < 0) {
        fprintf(stderr, "skipped: no measured data at %s\n", LULL_SHARED_DATA);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
