/*
 * Measures what any reaction costs on this machine that goes through two wake-ups, as that from a
 * section's begin to the driver call does (program, governor, lulld): process A wakes B, which
 * wakes C, by futexes in shared memory; nothing else is done. Ten milliseconds lie between two
 * rounds, so that processors and processes have gone to sleep.
 *
 * Usage: bench_wakeup. Prints p50_us and p99_us of one wake-up and of both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { ROUNDS = 400 };

#define PAUSE_NS (10 * LULL_NS_PER_MS)

struct shared {
    _Atomic uint32_t rounds[2]; /* that B and C have been woken for */
    int64_t begin_ns[ROUNDS];
    int64_t woken_ns[2][ROUNDS];
};

static void wake(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until the word is another one than before. */
static void await(_Atomic uint32_t *word, uint32_t before)
{
    while (atomic_load(word) == before)
        syscall(SYS_futex, word, FUTEX_WAIT, before, NULL, NULL, 0);
}

/* B or C: notes when it was woken, and wakes the next. */
static void pass_on(struct shared *shared, uint32_t place)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        await(&shared->rounds[place], round);
        shared->woken_ns[place][round] = lull_now_ns();
        if (place == 0)
            wake(&shared->rounds[1]);
    }
}

static pid_t start(struct shared *shared, uint32_t place)
{
    const pid_t child = fork();

    if (child == 0) {
        pass_on(shared, place);
        _exit(0);
    }
    return child;
}

static int by_value(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void print_times(const char *name, const struct shared *shared, uint32_t place)
{
    int64_t times_ns[ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++)
        times_ns[i] = shared->woken_ns[place][i] - shared->begin_ns[i];
    qsort(times_ns, ROUNDS, sizeof(times_ns[0]), by_value);
    printf("%s p50_us=%.0f p99_us=%.0f\n", name, (double)times_ns[ROUNDS / 2] * 1e-3,
           (double)times_ns[ROUNDS * 99 / 100] * 1e-3);
}

int main(void)
{
    struct shared *const shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[2];
    int status = 0;

    if (shared == MAP_FAILED)
        return 1;
    for (uint32_t i = 0; i < 2; i++) {
        children[i] = start(shared, i);
        if (children[i] < 0)
            return 1;
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        lull_sleep_until_ns(lull_now_ns() + PAUSE_NS);
        shared->begin_ns[i] = lull_now_ns();
        wake(&shared->rounds[0]);
    }
    for (uint32_t i = 0; i < 2; i++)
        if (waitpid(children[i], &status, 0) < 0 || status != 0)
            return 1;
    print_times("one wake-up:", shared, 0);
    print_times("two wake-ups:", shared, 1);
    return 0;
}
