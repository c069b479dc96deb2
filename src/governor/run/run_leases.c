/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/run_leases.h"

#include <errno.h>
#include <stddef.h>

#include "base/clock.h"

/* From one attempt to take leases again to the next: it doubles from the first to the longest, and
 * up to half of it is added, so that clients of a node that lost their leases together do not all
 * retry at the same time. Taking the leases again may last two seconds; the longest interval leaves
 * half a second of that. */
static const int64_t first_wait_ns = 100 * LULL_NS_PER_MS;
static const int64_t longest_wait_ns = LULL_NS_PER_S;

int lull_run_leases_open(struct lull_run_leases *leases, struct lull_devices *devices,
                         const char *runtime_dir, bool no_daemon, struct lull_error *err)
{
    leases->runtime_dir = runtime_dir;
    leases->devices = no_daemon ? devices : NULL;
    if (no_daemon)
        return lull_actuator_open_local(devices, runtime_dir, &leases->actuator, err);
    return lull_actuator_open_daemon(runtime_dir, &leases->actuator, err);
}

int lull_run_leases_close(struct lull_run_leases *leases)
{
    const int result = lull_actuator_close(leases->actuator);

    lull_actuator_close(leases->greeting);
    *leases = (struct lull_run_leases){0};
    return result;
}

static void run_leases_await_turn(struct lull_run_leases *leases, int64_t now_ns)
{
    leases->next_ns = now_ns + leases->wait_ns + now_ns % (leases->wait_ns / 2);
    leases->wait_ns *= 2;
    if (leases->wait_ns > longest_wait_ns)
        leases->wait_ns = longest_wait_ns;
}

static int run_leases_mark_lost(struct lull_run_leases *leases, struct lull_control *control)
{
    int result;

    lull_control_lock(control);
    lull_control_hold(control, LULL_HOLD_LEASES, true);
    lull_control_unlock(control);
    lull_control_disarm(control);
    result = lull_actuator_close(leases->actuator);
    leases->actuator = NULL;
    leases->is_lost = true;
    leases->wait_ns = first_wait_ns;
    return result;
}

int lull_run_leases_pause(struct lull_run_leases *leases, struct lull_control *control)
{
    const int result = run_leases_mark_lost(leases, control);

    lull_actuator_close(leases->greeting);
    leases->greeting = NULL;
    leases->is_paused = true;
    return result;
}

void lull_run_leases_resume(struct lull_run_leases *leases, int64_t now_ns)
{
    leases->is_paused = false;
    leases->next_ns = now_ns;
}

/* Returns -EAGAIN as long as the daemon has not greeted. */
static int run_leases_await_welcome(struct lull_run_leases *leases)
{
    if (leases->devices != NULL)
        return lull_actuator_open_local(leases->devices, leases->runtime_dir, &leases->greeting,
                                        NULL);
    if (leases->greeting == NULL)
        return lull_actuator_connect(leases->runtime_dir, &leases->greeting, NULL) < 0 ? -EPIPE
                                                                                       : -EAGAIN;
    return lull_actuator_greet(leases->greeting, NULL);
}

/* Retry after any answer of the daemon, because its answer may change: an administrator may hold
 * the GPUs for a while, or the daemon may not have detected the end of the previous connection
 * yet. */
static bool take_again(struct lull_run_leases *leases, struct lull_control *control, int64_t now_ns)
{
    int result;

    if (leases->greeting == NULL && now_ns < leases->next_ns)
        return false;
    result = run_leases_await_welcome(leases);
    if (result == -EAGAIN)
        return false;
    if (result == 0)
        result = lull_control_arm(control, leases->greeting, NULL);
    if (result < 0) {
        lull_actuator_close(leases->greeting);
        leases->greeting = NULL;
        run_leases_await_turn(leases, now_ns);
        return false;
    }
    leases->actuator = leases->greeting;
    leases->greeting = NULL;
    leases->is_lost = false;
    lull_control_lock(control);
    lull_control_hold(control, LULL_HOLD_LEASES, false);
    lull_control_unlock(control);
    return true;
}

enum lull_run_leases_change lull_run_leases_tick(struct lull_run_leases *leases,
                                                 struct lull_control *control, int64_t now_ns,
                                                 struct lull_error *text_out)
{
    struct lull_error err = {0};

    if (leases->actuator != NULL) {
        const int result = lull_actuator_poll(leases->actuator, &err);

        if (result == 0)
            return LULL_RUN_LEASES_KEPT;
        run_leases_mark_lost(leases, control);
        run_leases_await_turn(leases, now_ns);
        lull_error_set(text_out, result,
                       "%.160s. The job continues with its GPUs at the reference until they can be "
                       "leased again",
                       err.text);
        return LULL_RUN_LEASES_LOST;
    }
    if (!leases->is_lost || leases->is_paused || !take_again(leases, control, now_ns))
        return LULL_RUN_LEASES_KEPT;
    lull_error_set(text_out, -EAGAIN, "the job's GPUs are leased again and managed as before");
    return LULL_RUN_LEASES_BACK;
}
