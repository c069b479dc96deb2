/*
 * Sections of unmodified programs, from the ranges that they announce to profilers (NVTX 3):
 * forwards and backwards by their names (nvtx_names.h), in any domain, pushed or started. What lies
 * within one is part of it. A program may hold several copies of NVTX; each initialises us.
 *
 * Another tool's library that LULL_NVTX_CHAIN names is initialised first and called first: numbers
 * and handles are its own. Ranges of wide characters are only passed on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "lull/lull.h"
#include "probe/nvtx_abi.h"
#include "probe/nvtx_names.h"
#include "wire/event.h"

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_table get_table);

enum { CORE_FUNCTIONS = 16, DEPTH = 64, DOMAINS = 4, STRINGS = 256, STARTED = 64 };

/* The ranges that this thread has pushed in one domain. */
struct stack {
    const void *domain;
    uint32_t depth;
    uint8_t is_section[DEPTH];
};

struct thread {
    uint32_t kind;  /* the kind of the open section, or LULL_NVTX_NONE */
    uint32_t count; /* number of domains */
    struct stack stacks[DOMAINS];
};

/* A registered string that means a section; the texts of others are not kept. */
struct string {
    _Atomic(const void *) handle;
    _Atomic uint32_t kind;
};

/* A started range that means a section. */
struct started {
    _Atomic uint64_t number;
    _Atomic uint32_t is_section;
};

static _Thread_local struct thread this_thread;
static struct string strings[STRINGS];
static struct started started[STARTED];
static _Atomic uint64_t numbers; /* numbers of started ranges where there is no chain */
static _Atomic uintptr_t handles =
    1;                       /* handles of strings that mean nothing, where there is no chain */
static uint32_t sections[3]; /* the section of each kind */
static nvtx_function behind[2][CORE_FUNCTIONS]; /* the functions of the chain, by module */
static nvtx_initialize chain;
static pthread_mutex_t initializing = PTHREAD_MUTEX_INITIALIZER;

/* ---- sections ---------------------------------------------------------------------------- */

/* Begins a section; 1: it has started. A section within another one is part of it. */
static uint8_t nvtx_begin(enum lull_nvtx_kind kind)
{
    if (kind == LULL_NVTX_NONE || this_thread.kind != LULL_NVTX_NONE)
        return 0;
    this_thread.kind = kind;
    lull_section_enter(sections[kind]);
    return 1;
}

static void nvtx_end(void)
{
    if (this_thread.kind == LULL_NVTX_NONE)
        return; /* another thread has started it */
    lull_section_leave(sections[this_thread.kind]);
    this_thread.kind = LULL_NVTX_NONE;
}

static struct stack *stack_of(const void *domain)
{
    for (uint32_t i = 0; i < this_thread.count; i++)
        if (this_thread.stacks[i].domain == domain)
            return &this_thread.stacks[i];
    if (this_thread.count == DOMAINS)
        return NULL;
    this_thread.stacks[this_thread.count].domain = domain;
    return &this_thread.stacks[this_thread.count++];
}

/* Begins a pushed range and returns the number of ranges around it, as NVTX counts them. */
static int nvtx_push(const void *domain, enum lull_nvtx_kind kind)
{
    struct stack *stack = stack_of(domain);

    if (stack == NULL)
        return -1;
    if (stack->depth < DEPTH)
        stack->is_section[stack->depth] = nvtx_begin(kind);
    return (int)stack->depth++;
}

static int nvtx_pop(const void *domain)
{
    struct stack *stack = stack_of(domain);

    if (stack == NULL || stack->depth == 0)
        return -1;
    stack->depth--;
    if (stack->depth < DEPTH && stack->is_section[stack->depth])
        nvtx_end();
    return (int)stack->depth;
}

static void nvtx_start(uint64_t number, enum lull_nvtx_kind kind)
{
    if (!nvtx_begin(kind))
        return;
    for (uint32_t i = 0; i < STARTED; i++) {
        uint64_t none = 0;

        if (atomic_compare_exchange_strong(&started[i].number, &none, number))
            return;
    }
    nvtx_end(); /* the section ends here, because the range that would end it was not noted */
}

static void nvtx_stop(uint64_t number)
{
    for (uint32_t i = 0; i < STARTED && number != 0; i++) {
        uint64_t same = number;

        if (atomic_compare_exchange_strong(&started[i].number, &same, 0)) {
            nvtx_end();
            return;
        }
    }
}

/* ---- messages ---------------------------------------------------------------------------- */

static struct string *nvtx_place_of(const void *handle)
{
    return &strings[((uintptr_t)handle >> 3 ^ (uintptr_t)handle >> 12) % STRINGS];
}

/* Keeps the kind of a string that means a section. Of two strings with the same place the later one
 * has it. */
static void nvtx_store_string(const void *handle, enum lull_nvtx_kind kind)
{
    struct string *place = nvtx_place_of(handle);

    if (kind == LULL_NVTX_NONE) {
        const void *same = handle;

        /* The handle now belongs to a string that means nothing. */
        atomic_compare_exchange_strong(&place->handle, &same, NULL);
        return;
    }
    atomic_store(&place->kind, kind);
    atomic_store(&place->handle, handle);
}

static enum lull_nvtx_kind nvtx_kind_of(const struct nvtx_attributes *attributes)
{
    const struct string *place;

    if (attributes == NULL || attributes->size < sizeof(*attributes))
        return LULL_NVTX_NONE;
    if (attributes->message_type == NVTX_MESSAGE_ASCII)
        return lull_nvtx_kind_of(attributes->message.ascii);
    if (attributes->message_type != NVTX_MESSAGE_REGISTERED)
        return LULL_NVTX_NONE;
    place = nvtx_place_of(attributes->message.registered);
    if (attributes->message.registered != NULL &&
        atomic_load(&place->handle) == attributes->message.registered)
        return (enum lull_nvtx_kind)atomic_load(&place->kind);
    return LULL_NVTX_NONE;
}

/* ---- what programs call ------------------------------------------------------------------ */

#define CORE(function) behind[0][function]
#define CORE2(function) behind[1][function]

static int push_a(const char *name)
{
    const int depth = nvtx_push(NULL, lull_nvtx_kind_of(name));

    if (CORE(NVTX_RANGE_PUSH_A) == NULL)
        return depth;
    return ((int (*)(const char *))CORE(NVTX_RANGE_PUSH_A))(name);
}

static int push_w(const void *name)
{
    const int depth = nvtx_push(NULL, LULL_NVTX_NONE);

    if (CORE(NVTX_RANGE_PUSH_W) == NULL)
        return depth;
    return ((int (*)(const void *))CORE(NVTX_RANGE_PUSH_W))(name);
}

static int push_ex(const struct nvtx_attributes *attributes)
{
    const int depth = nvtx_push(NULL, nvtx_kind_of(attributes));

    if (CORE(NVTX_RANGE_PUSH_EX) == NULL)
        return depth;
    return ((int (*)(const void *))CORE(NVTX_RANGE_PUSH_EX))(attributes);
}

static int pop_range(void)
{
    const int depth = nvtx_pop(NULL);

    if (CORE(NVTX_RANGE_POP) == NULL)
        return depth;
    return ((int (*)(void))CORE(NVTX_RANGE_POP))();
}

static uint64_t start_a(const char *name)
{
    const uint64_t number = CORE(NVTX_RANGE_START_A) == NULL
                                ? atomic_fetch_add(&numbers, 1) + 1
                                : ((uint64_t(*)(const char *))CORE(NVTX_RANGE_START_A))(name);

    nvtx_start(number, lull_nvtx_kind_of(name));
    return number;
}

static uint64_t start_ex(const struct nvtx_attributes *attributes)
{
    const uint64_t number =
        CORE(NVTX_RANGE_START_EX) == NULL
            ? atomic_fetch_add(&numbers, 1) + 1
            : ((uint64_t(*)(const void *))CORE(NVTX_RANGE_START_EX))(attributes);

    nvtx_start(number, nvtx_kind_of(attributes));
    return number;
}

static void end_range(uint64_t number)
{
    nvtx_stop(number);
    if (CORE(NVTX_RANGE_END) != NULL)
        ((void (*)(uint64_t))CORE(NVTX_RANGE_END))(number);
}

static int domain_push_ex(const void *domain, const struct nvtx_attributes *attributes)
{
    const int depth = nvtx_push(domain, nvtx_kind_of(attributes));

    if (CORE2(NVTX_DOMAIN_RANGE_PUSH_EX) == NULL)
        return depth;
    return ((int (*)(const void *, const void *))CORE2(NVTX_DOMAIN_RANGE_PUSH_EX))(domain,
                                                                                   attributes);
}

static int domain_pop(const void *domain)
{
    const int depth = nvtx_pop(domain);

    if (CORE2(NVTX_DOMAIN_RANGE_POP) == NULL)
        return depth;
    return ((int (*)(const void *))CORE2(NVTX_DOMAIN_RANGE_POP))(domain);
}

static uint64_t domain_start_ex(const void *domain, const struct nvtx_attributes *attributes)
{
    const uint64_t number = CORE2(NVTX_DOMAIN_RANGE_START_EX) == NULL
                                ? atomic_fetch_add(&numbers, 1) + 1
                                : ((uint64_t(*)(const void *, const void *))CORE2(
                                      NVTX_DOMAIN_RANGE_START_EX))(domain, attributes);

    nvtx_start(number, nvtx_kind_of(attributes));
    return number;
}

static void domain_end(const void *domain, uint64_t number)
{
    nvtx_stop(number);
    if (CORE2(NVTX_DOMAIN_RANGE_END) != NULL)
        ((void (*)(const void *, uint64_t))CORE2(NVTX_DOMAIN_RANGE_END))(domain, number);
}

static const void *register_string(const void *domain, const char *text)
{
    const void *handle = CORE2(NVTX_DOMAIN_REGISTER_STRING_A) == NULL
                             ? (const void *)(atomic_fetch_add(&handles, 1) << 3)
                             : ((const void *(*)(const void *, const char *))CORE2(
                                   NVTX_DOMAIN_REGISTER_STRING_A))(domain, text);

    if (handle != NULL)
        nvtx_store_string(handle, lull_nvtx_kind_of(text));
    return handle;
}

/* A domain needs nothing but a handle of its own. */
static const void *create_domain(const char *name)
{
    if (CORE2(NVTX_DOMAIN_CREATE_A) == NULL)
        return (const void *)(atomic_fetch_add(&handles, 1) << 3);
    return ((const void *(*)(const char *))CORE2(NVTX_DOMAIN_CREATE_A))(name);
}

/* ---- taking over ------------------------------------------------------------------------- */

struct hook {
    int module;
    unsigned number;
    nvtx_function function;
};

#define HOOK(module, number, function)                                                             \
    {                                                                                              \
        module, number, (nvtx_function)(function)                                                  \
    }
static const struct hook hooks[] = {
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_START_EX, start_ex),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_START_A, start_a),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_END, end_range),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_PUSH_EX, push_ex),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_PUSH_A, push_a),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_PUSH_W, push_w),
    HOOK(NVTX_MODULE_CORE, NVTX_RANGE_POP, pop_range),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_START_EX, domain_start_ex),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_END, domain_end),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_PUSH_EX, domain_push_ex),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_POP, domain_pop),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_REGISTER_STRING_A, register_string),
    HOOK(NVTX_MODULE_CORE2, NVTX_DOMAIN_CREATE_A, create_domain),
};
enum { HOOKS = sizeof(hooks) / sizeof(hooks[0]) };

static void nvtx_prepare(void)
{
    static int is_prepared;
    const char *path = secure_getenv(LULL_NVTX_CHAIN_ENV);
    void *library;

    if (is_prepared)
        return;
    is_prepared = 1;
    sections[LULL_NVTX_FORWARD] = lull_section_register("forward");
    sections[LULL_NVTX_BACKWARD] = lull_section_register("backward");
    library = path == NULL || path[0] == '\0' ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        *(void **)&chain = dlsym(library, NVTX_INJECTION_ENTRY);
    if (chain == InitializeInjectionNvtx2)
        chain = NULL; /* the chain must not lead to ourselves */
}

/* Returns where the program keeps its pointer to a function; NULL: it has none. */
static nvtx_function *nvtx_find_place(const struct nvtx_callbacks *callbacks,
                                      const struct hook *hook)
{
    nvtx_function **table = NULL;
    unsigned size = 0;

    if (callbacks->get_functions(hook->module, &table, &size) == 1 && table != NULL &&
        hook->number < size)
        return table[hook->number];
    return NULL;
}

int InitializeInjectionNvtx2(nvtx_get_table get_table)
{
    const struct nvtx_callbacks *callbacks = get_table(NVTX_TABLE_CALLBACKS);
    nvtx_function before[HOOKS] = {NULL};

    if (callbacks == NULL || callbacks->size < sizeof(*callbacks))
        return 0;
    pthread_mutex_lock(&initializing);
    nvtx_prepare();
    for (int i = 0; i < HOOKS; i++) {
        nvtx_function *place = nvtx_find_place(callbacks, &hooks[i]);

        before[i] = place == NULL ? NULL : *place;
    }
    if (chain != NULL)
        chain(get_table);
    for (int i = 0; i < HOOKS; i++) {
        nvtx_function *place = nvtx_find_place(callbacks, &hooks[i]);
        nvtx_function *theirs = &behind[hooks[i].module == NVTX_MODULE_CORE2][hooks[i].number];

        if (place == NULL)
            continue;
        if (*place != before[i] && *theirs == NULL)
            *theirs = *place;
        *place = hooks[i].function;
    }
    pthread_mutex_unlock(&initializing);
    return 1;
}
