/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* A run maps a segment and a live state for each of two passes. */
enum { MAX = 16 };

static struct {
    atomic_uintptr_t begin; /* 0: it is free */
    atomic_size_t size;
    atomic_bool is_cut;
} mappings[MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of those who guard and release */
static struct sigaction before;
static bool is_installed;

/* Puts memory of zeros instead of what is gone; false: it is nothing that is guarded. */
static bool mapping_replace(uintptr_t address)
{
    for (int i = 0; i < MAX; i++) {
        const uintptr_t begin = atomic_load(&mappings[i].begin);
        const size_t size = atomic_load(&mappings[i].size);

        if (begin == 0 || address < begin || address - begin >= size)
            continue;
        atomic_store(&mappings[i].is_cut, true);
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address came as a pointer */
        return mmap((void *)begin, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

/* A fault of anything else comes again when this returns, and ends the process as it would have. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    const int saved_errno = errno;

    (void)context;
    if (info->si_code <= 0 || !mapping_replace((uintptr_t)info->si_addr))
        sigaction(number, &before, NULL);
    errno = saved_errno;
}

static int mapping_install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    if (is_installed)
        return 0;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &before) < 0)
        return -errno;
    is_installed = true;
    return 0;
}

int lull_mapping_guard(void *memory, size_t size)
{
    int result;

    pthread_mutex_lock(&lock);
    result = mapping_install();
    for (int i = 0; result == 0 && i < MAX; i++) {
        if (atomic_load(&mappings[i].begin) != 0)
            continue;
        atomic_store(&mappings[i].is_cut, false);
        atomic_store(&mappings[i].size, size);
        atomic_store(&mappings[i].begin, (uintptr_t)memory);
        pthread_mutex_unlock(&lock);
        return i;
    }
    pthread_mutex_unlock(&lock);
    return result < 0 ? result : -ENOSPC;
}

bool lull_mapping_is_cut(int number)
{
    return number >= 0 && atomic_load(&mappings[number].is_cut);
}

void lull_mapping_release(int number)
{
    if (number >= 0)
        atomic_store(&mappings[number].begin, 0);
}
