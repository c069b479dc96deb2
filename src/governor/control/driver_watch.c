/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/driver_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

/* A call that blocks for longer is reported. A typical call takes 5 to 10 ms. */
static const double slow_call_ms = 100.0;
/* Readings lag behind by up to 100 ms and a clock settles after up to 48 ms, so a reading soon
 * after a change is no evidence. */
static const int64_t grace_ns = 300 * LULL_NS_PER_MS;
/* A reading may be off by a step of the clock list, which is 15 MHz on NVIDIA's GPUs. */
static const uint32_t margin_mhz = 20;

/* Management of a GPU ends after this many consecutive changes without effect. This many
 * consecutive unexpected readings are attributed to another program. */
enum { WITHOUT_EFFECT_MAX = 5, STRANGE_MIN = 3 };

/* This many consecutive refusals are not temporary: the writer has retried each several times. */
enum { REFUSED_MIN = 3 };

/* Records whether the driver has refused a request for a temporary reason. */
static void note_refusal(struct lull_driver_watch *watch, const struct lull_switch_result *result)
{
    const bool is_refused =
        result->status == -EAGAIN || result->status == -EIO || result->status == LULL_E_DRIVER;

    if (is_refused) {
        watch->refusal = result->status;
        watch->refused++;
    } else if (result->status == 0 && result->call_ns != 0) {
        watch->refusal = 0;
        watch->refused = 0;
    }
}

void lull_driver_watch_take_result(struct lull_driver_watch *watch,
                                   const struct lull_switch_result *result)
{
    const bool is_denied = result->status == -EPERM || result->status == LULL_E_UNSUPPORTED ||
                           result->status == LULL_E_NO_DEVICE;

    watch->is_locked = result->status == -EBUSY || (watch->is_locked && result->call_ns == 0);
    note_refusal(watch, result);
    if (is_denied)
        watch->denial = result->status;
    else if (result->status == 0 && result->call_ns != 0)
        watch->denial = 0;
    /* With LULL_E_STALE the call was also made, but was undone because it was too late. */
    if ((result->status != 0 && result->status != LULL_E_STALE) || result->call_ns == 0)
        return;
    watch->changes++;
    if (result->settle_ns == LULL_SETTLE_NOT_APPLIED) {
        watch->without_effect++;
        watch->in_vain++;
    } else if (result->sm_mhz != 0) { /* the clock may have been at its highest all the time */
        watch->in_vain = 0;
    }
}

void lull_driver_watch_take_calls(struct lull_driver_watch *watch, uint64_t calls, double call_ms)
{
    watch->calls += calls;
    watch->slow_calls += call_ms > slow_call_ms;
    if (call_ms > watch->slowest_call_ms)
        watch->slowest_call_ms = call_ms;
}

void lull_driver_watch_take_clock(struct lull_driver_watch *watch, int64_t now_ns,
                                  uint32_t read_mhz, const struct lull_clock_expectation *expected)
{
    const uint32_t target_mhz = expected->set_mhz != 0 ? expected->set_mhz : expected->highest_mhz;
    const bool is_higher = read_mhz > target_mhz + margin_mhz;
    const bool is_lower = read_mhz + margin_mhz < target_mhz;

    if (expected->is_limited || read_mhz == 0 || now_ns - expected->since_ns < grace_ns)
        return;
    if (!is_higher && !is_lower)
        watch->strange = 0;
    else if (++watch->strange == STRANGE_MIN)
        watch->foreign++;
}

bool lull_driver_watch_follows(const struct lull_switch_result *result,
                               const struct lull_clock_expectation *before)
{
    const uint32_t before_mhz = before->set_mhz != 0 ? before->set_mhz : before->highest_mhz;

    return result->sm_mhz != 0 && result->sm_mhz < before_mhz &&
           2 * result->observed_mhz <= before_mhz + result->sm_mhz;
}

bool lull_driver_watch_denies(const struct lull_driver_watch *watch)
{
    return watch->denial != 0;
}

bool lull_driver_watch_is_refused(const struct lull_driver_watch *watch)
{
    return watch->refused >= REFUSED_MIN;
}

bool lull_driver_watch_has_no_effect(const struct lull_driver_watch *watch)
{
    return watch->in_vain >= WITHOUT_EFFECT_MAX;
}

/* Appends a sentence to the text. */
__attribute__((format(printf, 3, 4))) static void driver_watch_append(char *text, size_t size,
                                                                      const char *format, ...)
{
    size_t used = 0;
    va_list arguments;

    while (used < size && text[used] != '\0')
        used++;
    if (used > 0 && used + 2 < size)
        used += (size_t)snprintf(text + used, size - used, "; ");
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

bool lull_driver_watch_describe(const struct lull_driver_watch *watch, char *text, size_t size)
{
    text[0] = '\0';
    if (watch->without_effect > 0)
        driver_watch_append(text, size,
                            "%" PRIu64 " of %" PRIu64
                            " clock changes had no effect although the driver reported "
                            "success",
                            watch->without_effect, watch->changes);
    if (watch->slow_calls > 0)
        driver_watch_append(text, size,
                            "driver calls block for %.0f ms: %" PRIu64 " of %" PRIu64
                            " took over 100 ms",
                            watch->slowest_call_ms, watch->slow_calls, watch->calls);
    if (watch->foreign > 0)
        driver_watch_append(text, size,
                            "the clock was %" PRIu64
                            " times not what had been set: another program changes it",
                            watch->foreign);
    return text[0] != '\0';
}
