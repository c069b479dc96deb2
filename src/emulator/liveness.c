/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/liveness.h"

#include "base/process.h"

uint64_t lull_process_start_mark(pid_t pid)
{
    const int64_t ticks = lull_process_start_ticks(pid);

    return ticks > 0 ? (uint64_t)ticks : 0;
}

bool lull_process_is_alive(pid_t pid, uint64_t start_mark)
{
    if (start_mark == 0)
        return true;
    return lull_process_start_mark(pid) == start_mark;
}
