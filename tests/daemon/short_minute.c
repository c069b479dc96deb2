/*
 * Preloaded: timers of the event loop that are a minute long
 * take two seconds. Shorter ones are unchanged. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <uv.h>

enum { MINUTE_MS = 60000, SHORT_MS = 2000 };

__attribute__((visibility("default"))) int uv_timer_start(uv_timer_t *timer, uv_timer_cb on_time,
                                                          uint64_t timeout_ms, uint64_t repeat_ms)
{
    int (*start)(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);

    *(void **)&start = dlsym(RTLD_NEXT, "uv_timer_start");
    if (start == NULL)
        abort();
    return start(timer, on_time, timeout_ms == MINUTE_MS ? SHORT_MS : timeout_ms, repeat_ms);
}
