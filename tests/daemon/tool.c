/*
 * The tool of the end-to-end tests: the commands of this layer by name, and clients that behave or
 * misbehave around a lowered GPU. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "emulator/node.h"
#include "emulator/workload.h"
#include "governor/control/actuator.h"

/* Closed at exit, behind the actuator that borrows it. */
static struct lull_devices *devices;

/* The leased band. */
static struct lull_band lease_band = {.min_mhz = 600, .max_mhz = 1200};

static void close_devices(void)
{
    lull_devices_close(devices);
}

static int fail(const struct lull_error *error)
{
    fprintf(stderr, "tool: %s\n", error->text);
    return (int)lull_error_exit_status(error->code);
}

/* Opens the back end named by mode ("daemon" or "local") and leases the GPU. */
static int open_lease(const char *mode, const char *uuid, struct lull_actuator **actuator_out,
                      uint32_t *slot_out, struct lull_error *err)
{
    const char *runtime_dir = getenv("LULL_RUNTIME_DIR");
    int result;

    *actuator_out = NULL;
    if (strcmp(mode, "daemon") == 0) {
        result = lull_actuator_open_daemon(runtime_dir, actuator_out, err);
    } else {
        result = lull_devices_open(&devices, err);
        if (result == 0)
            result = lull_actuator_open_local(devices, runtime_dir, actuator_out, err);
    }
    if (result == 0)
        result = lull_actuator_lease(*actuator_out, uuid, &lease_band, slot_out, err);
    if (result < 0)
        lull_actuator_close(*actuator_out);
    return result;
}

static void print_result(const char *name, const struct lull_switch_result *result)
{
    printf("%s sequence=%" PRIu64 " status=%d sm_mhz=%u call_ns=%" PRId64 " settle_ns=%" PRId64
           " observed_mhz=%u\n",
           name, result->sequence, result->status, result->sm_mhz, result->call_ns,
           result->settle_ns, result->observed_mhz);
    fflush(stdout);
}

/* Waits up to 10 s until the outcome of a request is there, and settled if it was applied. */
static void await(struct lull_actuator *actuator, uint32_t slot, uint64_t sequence,
                  struct lull_switch_result *result_out)
{
    const int64_t until_ns = lull_now_ns() + 10 * LULL_NS_PER_S;

    do {
        lull_sleep_until_ns(lull_now_ns() + 200 * LULL_NS_PER_US);
        lull_actuator_result(actuator, slot, result_out);
    } while (lull_now_ns() < until_ns &&
             (result_out->sequence != sequence ||
              (result_out->status == 0 && result_out->settle_ns == LULL_SETTLE_UNKNOWN)));
}

/* Lowers; asks again, up to 10 s, while a busy host lets the request come too late to be tried. */
static void lower(struct lull_actuator *actuator, uint32_t slot, uint32_t sm_mhz,
                  struct lull_switch_result *result_out)
{
    const int64_t until_ns = lull_now_ns() + 10 * LULL_NS_PER_S;
    int64_t now_ns;

    do {
        now_ns = lull_now_ns();
        await(actuator, slot,
              lull_actuator_set(actuator, slot, sm_mhz, now_ns + LULL_NS_PER_S,
                                now_ns + 4 * LULL_NS_PER_S),
              result_out);
    } while (result_out->status == LULL_E_STALE && result_out->call_ns == 0 && now_ns < until_ns);
}

/* hold MODE UUID MHZ [fork]: lowers, then keeps it lowered until killed. */
static int hold(int argc, char **argv)
{
    struct lull_actuator *actuator;
    struct lull_switch_result result;
    struct lull_error error = {0};
    uint32_t slot;
    uint32_t sm_mhz = (uint32_t)strtoul(argv[4], NULL, 10);
    int64_t now_ns;

    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    lower(actuator, slot, sm_mhz, &result);
    if (argc > 5 && fork() == 0) {
        pause(); /* a data loader that inherits every descriptor */
        _exit(0);
    }
    print_result("lowered", &result);
    for (;;) {
        lull_sleep_until_ns(lull_now_ns() + 500 * LULL_NS_PER_MS);
        if (lull_actuator_poll(actuator, &error) < 0) {
            lull_actuator_close(actuator);
            return fail(&error);
        }
        now_ns = lull_now_ns();
        lull_actuator_set(actuator, slot, sm_mhz, now_ns + LULL_NS_PER_S,
                          now_ns + 4 * LULL_NS_PER_S);
    }
}

/* Waits up to 10 s until the outcome of a request for a power limit is there, and prints it. */
static void await_limit(struct lull_actuator *actuator, uint32_t slot, const char *name,
                        uint32_t limit_mw)
{
    const uint64_t sequence = lull_actuator_set_limit(actuator, slot, limit_mw);
    const int64_t until_ns = lull_now_ns() + 10 * LULL_NS_PER_S;
    struct lull_limit_result result;

    do {
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        lull_actuator_limit_result(actuator, slot, &result);
    } while (lull_now_ns() < until_ns && result.sequence != sequence);
    printf("%s sequence=%" PRIu64 " status=%d limit_mw=%u\n", name, result.sequence, result.status,
           result.limit_mw);
}

/* limits MODE UUID: requests some power limits, a line each, and holds the last until killed. */
static int limits(char **argv)
{
    struct lull_actuator *actuator;
    struct lull_error error = {0};
    uint32_t slot;

    lease_band.min_limit_mw = 150000;
    lease_band.max_limit_mw = UINT32_MAX;
    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    await_limit(actuator, slot, "first", 300000);
    await_limit(actuator, slot, "above", 390000);
    await_limit(actuator, slot, "below", 1000);
    await_limit(actuator, slot, "before", 0);
    await_limit(actuator, slot, "last", 250000);
    fflush(stdout);
    for (;;) {
        lull_sleep_until_ns(lull_now_ns() + 500 * LULL_NS_PER_MS);
        if (lull_actuator_poll(actuator, &error) < 0) {
            lull_actuator_close(actuator);
            return fail(&error);
        }
    }
}

/* Keeps a lease until it is taken back or the process is killed. */
static int hold_until_killed(struct lull_actuator *actuator)
{
    struct lull_error error = {0};

    do
        lull_sleep_until_ns(lull_now_ns() + 500 * LULL_NS_PER_MS);
    while (lull_actuator_poll(actuator, &error) == 0);
    lull_actuator_close(actuator);
    return fail(&error);
}

/* ---- settings that are held --------------------------------------------------------------- */

/* Requests a value for a slot. Returns the number of the request. */
typedef uint64_t request_setting(struct lull_actuator *actuator, uint32_t slot, uint32_t value);

/* Prints the outcome of a request. Returns false before there is one. */
typedef bool show_setting(const struct lull_limit_result *result, uint64_t sequence);

static int hold_setting(char **argv, request_setting *request, show_setting *show)
{
    const int64_t until_ns = lull_now_ns() + 10 * LULL_NS_PER_S;
    struct lull_actuator *actuator;
    struct lull_limit_result result;
    struct lull_error error = {0};
    uint64_t sequence;
    uint32_t slot;

    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    sequence = request(actuator, slot, (uint32_t)strtoul(argv[4], NULL, 0));
    do {
        lull_sleep_until_ns(lull_now_ns() + LULL_NS_PER_MS);
        lull_actuator_limit_result(actuator, slot, &result);
    } while (lull_now_ns() < until_ns && !show(&result, sequence));
    fflush(stdout);
    return hold_until_killed(actuator);
}

static bool show_profiles(const struct lull_limit_result *result, uint64_t sequence)
{
    if (result->profile_sequence != sequence)
        return false;
    printf("requested sequence=%" PRIu64 " status=%d enforced=%u\n", sequence,
           result->profile_status, result->profiles);
    return true;
}

/* profiles MODE UUID MASK: requests power profiles, prints what becomes of them, and holds them
 * until killed. */
static int profiles(char **argv)
{
    return hold_setting(argv, lull_actuator_set_profiles, show_profiles);
}

static uint64_t request_smoothing(struct lull_actuator *actuator, uint32_t slot, uint32_t percent)
{
    const struct lull_smoothing wanted = {percent, 20000, 10000, 300};

    return lull_actuator_set_smoothing(actuator, slot, &wanted);
}

static bool show_smoothing(const struct lull_limit_result *result, uint64_t sequence)
{
    if (result->smoothing_sequence != sequence)
        return false;
    printf("requested sequence=%" PRIu64 " status=%d floor=%u\n", sequence,
           result->smoothing_status, result->smoothing_floor_w);
    return true;
}

/* smoothing MODE UUID PERCENT: the same for a floor of power smoothing. */
static int smoothing(char **argv)
{
    return hold_setting(argv, request_smoothing, show_smoothing);
}

/* unleased MODE UUID: requests a power limit that the lease does not speak of. */
static int unleased(char **argv)
{
    struct lull_actuator *actuator;
    struct lull_error error = {0};
    uint32_t slot;

    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    await_limit(actuator, slot, "refused", 300000);
    lull_actuator_close(actuator);
    return 0;
}

/* admin UUID W: sets a power limit without lulld. */
static int admin(const char *uuid, const char *limit_w)
{
    struct lull_error error = {0};
    int gpu;

    if (lull_devices_open(&devices, &error) < 0)
        return fail(&error);
    gpu = lull_device_find(devices, uuid);
    if (gpu < 0 ||
        lull_device_set_power_limit(devices, (uint32_t)gpu,
                                    (uint32_t)strtoul(limit_w, NULL, 10) * 1000, &error) < 0)
        return fail(&error);
    return 0;
}

/* admin-profiles UUID MASK: requests power profiles without lulld. */
static int admin_profiles(const char *uuid, const char *mask)
{
    struct lull_error error = {0};
    int gpu;

    if (lull_devices_open(&devices, &error) < 0)
        return fail(&error);
    gpu = lull_device_find(devices, uuid);
    if (gpu < 0 || lull_device_add_profiles(devices, (uint32_t)gpu,
                                            (uint32_t)strtoul(mask, NULL, 0), &error) < 0)
        return fail(&error);
    return 0;
}

/* admin-smoothing UUID PERCENT: switches power smoothing on without lulld; 0: off. */
static int admin_smoothing(const char *uuid, const char *percent)
{
    const uint32_t floor_percent = (uint32_t)strtoul(percent, NULL, 0);
    struct lull_error error = {0};
    int gpu;

    if (lull_devices_open(&devices, &error) < 0)
        return fail(&error);
    gpu = lull_device_find(devices, uuid);
    if (gpu < 0 ||
        lull_device_set_smoothing(devices, (uint32_t)gpu, LULL_SMOOTHING_FLOOR, floor_percent,
                                  &error) < 0 ||
        lull_device_set_smoothing(devices, (uint32_t)gpu, LULL_SMOOTHING_STATE, floor_percent != 0,
                                  &error) < 0)
        return fail(&error);
    return 0;
}

/* smoothing-settings UUID: prints the settings of power smoothing. */
static int print_smoothing(const char *uuid)
{
    struct lull_smoothing_settings now;
    struct lull_error error = {0};
    int gpu;

    if (lull_devices_open(&devices, &error) < 0)
        return fail(&error);
    gpu = lull_device_find(devices, uuid);
    if (gpu < 0 || lull_device_read_smoothing(devices, (uint32_t)gpu, &now, &error) < 0)
        return fail(&error);
    for (int i = 0; i < LULL_SMOOTHING_ITEMS; i++)
        printf("%u ", now.items[i]);
    putchar('\n');
    return 0;
}

/* rules MODE UUID: one client's requests and what comes of them, a line each. */
static int rules(char **argv)
{
    struct lull_actuator *actuator;
    struct lull_switch_result result;
    struct lull_error error = {0};
    uint32_t slot;
    uint64_t sequence = 0;
    int64_t now_ns;

    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    now_ns = lull_now_ns();
    sequence = lull_actuator_set(actuator, slot, 900, now_ns - 1, now_ns + LULL_NS_PER_S);
    await(actuator, slot, sequence, &result);
    print_result("stale", &result);

    now_ns = lull_now_ns();
    sequence =
        lull_actuator_set(actuator, slot, 1, now_ns + LULL_NS_PER_S, now_ns + 2 * LULL_NS_PER_S);
    await(actuator, slot, sequence, &result);
    print_result("clamped", &result);

    now_ns = lull_now_ns();
    sequence =
        lull_actuator_set(actuator, slot, 1, now_ns + LULL_NS_PER_S, now_ns + 2 * LULL_NS_PER_S);
    await(actuator, slot, sequence, &result);
    print_result("same", &result);

    sequence = lull_actuator_set(actuator, slot, 0, 0, 0);
    await(actuator, slot, sequence, &result);
    print_result("raised", &result);

    now_ns = lull_now_ns();
    for (uint32_t i = 0; i < 100; i++)
        sequence = lull_actuator_set(actuator, slot, 700 + i, now_ns + LULL_NS_PER_S,
                                     now_ns + LULL_NS_PER_S);
    sequence =
        lull_actuator_set(actuator, slot, 1050, now_ns + LULL_NS_PER_S, now_ns + LULL_NS_PER_S);
    await(actuator, slot, sequence, &result);
    print_result("latest", &result);

    lull_sleep_until_ns(now_ns + 1200 * LULL_NS_PER_MS);
    lull_actuator_result(actuator, slot, &result);
    print_result("expired", &result);
    lull_actuator_close(actuator);
    return 0;
}

static int compare(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static void print_times(const char *name, int64_t *times_ns, int count)
{
    qsort(times_ns, (size_t)count, sizeof(times_ns[0]), compare);
    printf("%s_p50_us=%" PRId64 " %s_p99_us=%" PRId64 " ", name,
           times_ns[count / 2] / LULL_NS_PER_US, name, times_ns[count * 99 / 100] / LULL_NS_PER_US);
}

/* latency MODE UUID: from posting a request to the start of the driver call. */
static int latency(char **argv)
{
    enum { ROUNDS = 100 };
    int64_t delays_ns[2][ROUNDS]; /* of raisings and of lowerings */
    int64_t calls_ns[2 * ROUNDS];
    struct lull_actuator *actuator;
    struct lull_switch_result result;
    struct lull_error error = {0};
    uint32_t slot;

    if (open_lease(argv[2], argv[3], &actuator, &slot, &error) < 0)
        return fail(&error);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int64_t now_ns;

        lull_sleep_until_ns(lull_now_ns() + 50 * LULL_NS_PER_MS);
        now_ns = lull_now_ns();
        await(actuator, slot,
              lull_actuator_set(actuator, slot, i % 2 == 0 ? 900 : 0, now_ns + LULL_NS_PER_S,
                                now_ns + LULL_NS_PER_S),
              &result);
        delays_ns[i % 2 == 0][i / 2] = result.call_begin_ns - now_ns;
        calls_ns[i] = result.call_ns;
        if (lull_actuator_poll(actuator, &error) < 0) {
            lull_actuator_close(actuator);
            return fail(&error);
        }
    }
    lull_actuator_close(actuator);
    print_times("raising", delays_ns[0], ROUNDS);
    print_times("lowering", delays_ns[1], ROUNDS);
    print_times("call", calls_ns, 2 * ROUNDS);
    printf("\n");
    return 0;
}

/* Raises step by step as fast as the writer answers, until the lease is taken back. */
static void climb(struct lull_actuator *actuator, uint32_t slot)
{
    struct lull_switch_result result;
    uint32_t sm_mhz = 0;

    while (lull_actuator_poll(actuator, NULL) == 0) {
        const int64_t begin_ns = lull_now_ns();
        uint64_t sequence;

        sm_mhz = sm_mhz >= lease_band.max_mhz ? lease_band.min_mhz : sm_mhz + 15;
        sequence = lull_actuator_set(actuator, slot, sm_mhz, begin_ns + LULL_NS_PER_S,
                                     begin_ns + LULL_NS_PER_S);
        do
            lull_actuator_result(actuator, slot, &result);
        while (result.sequence != sequence && lull_now_ns() < begin_ns + 100 * LULL_NS_PER_MS);
    }
}

/* stairs UUID: does so for ever, with a new lease each time. */
_Noreturn static void stairs(const char *uuid)
{
    for (;;) {
        struct lull_actuator *actuator;
        struct lull_error error = {0};
        uint32_t slot;

        if (open_lease("daemon", uuid, &actuator, &slot, &error) == 0) {
            climb(actuator, slot);
            lull_actuator_close(actuator);
        }
        lull_sleep_until_ns(lull_now_ns() + 10 * LULL_NS_PER_MS);
    }
}

/* truth GPU: the real state of the emulated GPU, which no driver reports. */
static int truth(const char *gpu)
{
    struct lull_node *node;
    struct lull_node_truth seen;
    struct lull_error error;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, &error) < 0)
        return fail(&error);
    lull_node_read_truth(node, (uint32_t)strtoul(gpu, NULL, 10), &seen);
    printf("%s\n", seen.is_locked ? "locked" : "free");
    lull_node_close(node);
    return 0;
}

/* watch GPU: prints when the emulated GPU's lock comes and goes, until killed. */
static int watch(const char *gpu)
{
    struct lull_node *node;
    struct lull_node_truth seen;
    struct lull_error error;
    int before = -1;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, &error) < 0)
        return fail(&error);
    lull_thread_set_realtime(); /* its times are to be true on a busy host as well */
    for (;;) {
        lull_node_read_truth(node, (uint32_t)strtoul(gpu, NULL, 10), &seen);
        if (before != (int)seen.is_locked) {
            printf("%" PRId64 " %s\n", lull_now_ns(), seen.is_locked ? "locked" : "free");
            fflush(stdout);
        }
        before = (int)seen.is_locked;
        lull_sleep_until_ns(lull_now_ns() + 200 * LULL_NS_PER_US);
    }
}

/* draw: prints 20 times a second, until killed, the time (s) and for each emulated GPU what it has
 * taken (J, as a meter without steps would show it) and its clock (MHz). */
static int draw(void)
{
    struct lull_node *node;
    struct lull_error error;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, &error) < 0)
        return fail(&error);
    lull_thread_set_realtime(); /* its times are to be true on a busy host as well */
    for (int64_t next_ns = lull_now_ns();; next_ns += 50 * LULL_NS_PER_MS) {
        printf("%.6f", (double)lull_now_ns() * 1e-9);
        for (uint32_t gpu = 0; gpu < lull_node_gpu_count(node); gpu++) {
            struct lull_node_truth seen;

            lull_node_read_truth(node, gpu, &seen);
            printf(" %.4f %.1f", seen.energy_j * seen.gain_ratio, seen.sm_mhz);
        }
        printf("\n");
        fflush(stdout);
        lull_sleep_until_ns(next_ns);
    }
}

/* fault LIST: makes the emulated GPUs misbehave from now on. */
static int fault(const char *list)
{
    struct lull_node *node;
    struct lull_error error;

    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, &error) < 0 ||
        lull_node_set_faults(node, list, &error) < 0)
        return fail(&error);
    lull_node_close(node);
    return 0;
}

/* busy GPU [MS]: keeps kernels of so many ms (50) running until killed; prints a line once one is
 * on the GPU. A host that is late for the next ones shows as a GPU that idles, unless they are
 * long. */
static int busy(const char *index, const char *length)
{
    const struct lull_kernel kernel = {.duration_ms = length != NULL ? strtod(length, NULL) : 50.0};
    struct lull_emulated_gpu *gpu;
    struct lull_error error;

    if (lull_emulated_gpu_open((uint32_t)strtoul(index, NULL, 10), &gpu, &error) < 0)
        return fail(&error);
    printf("busy\n");
    fflush(stdout);
    for (;;) {
        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
    }
}

int main(int argc, char **argv)
{
    lull_log_init(LULL_LOG_WARNING);
    atexit(close_devices);
    if (argc >= 5 && strcmp(argv[1], "hold") == 0)
        return hold(argc, argv);
    if (argc == 4 && strcmp(argv[1], "rules") == 0)
        return rules(argv);
    if (argc == 4 && strcmp(argv[1], "limits") == 0)
        return limits(argv);
    if (argc == 4 && strcmp(argv[1], "unleased") == 0)
        return unleased(argv);
    if (argc == 4 && strcmp(argv[1], "admin") == 0)
        return admin(argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "profiles") == 0)
        return profiles(argv);
    if (argc == 4 && strcmp(argv[1], "admin-profiles") == 0)
        return admin_profiles(argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "smoothing") == 0)
        return smoothing(argv);
    if (argc == 4 && strcmp(argv[1], "admin-smoothing") == 0)
        return admin_smoothing(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "smoothing-settings") == 0)
        return print_smoothing(argv[2]);
    if (argc == 4 && strcmp(argv[1], "latency") == 0)
        return latency(argv);
    if (argc == 3 && strcmp(argv[1], "stairs") == 0)
        stairs(argv[2]);
    if (argc == 3 && strcmp(argv[1], "truth") == 0)
        return truth(argv[2]);
    if (argc == 3 && strcmp(argv[1], "watch") == 0)
        return watch(argv[2]);
    if (argc == 2 && strcmp(argv[1], "draw") == 0)
        return draw();
    if (argc == 3 && strcmp(argv[1], "fault") == 0)
        return fault(argv[2]);
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "busy") == 0)
        return busy(argv[2], argc == 4 ? argv[3] : NULL);
    fprintf(stderr, "tool: no such command\n");
    return LULL_EXIT_USAGE;
}
