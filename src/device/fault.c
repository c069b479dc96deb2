/* SPDX-License-Identifier: Apache-2.0 */
#include "device/fault.h"

#include <errno.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"

/* A GPU that has fallen off the bus is back after a reset of seconds to minutes; what passes, such
 * as a driver without memory, does so within some calls of 10 ms. */
static const int64_t gone_first_ns = LULL_NS_PER_S;
static const int64_t gone_last_ns = 60 * LULL_NS_PER_S;
static const int64_t passing_first_ns = 10 * LULL_NS_PER_MS;

static const struct {
    int error;
    enum lull_device_fault fault;
} rows[] = {
    {0, LULL_FAULT_NONE},
    {LULL_E_NO_DEVICE, LULL_FAULT_GONE},
    {LULL_E_NO_DRIVER, LULL_FAULT_GONE},
    {LULL_E_UNSUPPORTED, LULL_FAULT_UNSUPPORTED},
    {-EPERM, LULL_FAULT_NOT_ALLOWED},
    {-EIO, LULL_FAULT_ALARM},
    {-EAGAIN, LULL_FAULT_PASSING},
    {LULL_E_DRIVER, LULL_FAULT_PASSING},
    {-EINVAL, LULL_FAULT_OWN},
};

enum lull_device_fault lull_fault_of(int error)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].error == error)
            return rows[i].fault;
    return LULL_FAULT_PASSING; /* nothing is known of it, as of NVML's unknown error */
}

bool lull_fault_may_pass(enum lull_device_fault fault)
{
    return fault == LULL_FAULT_GONE || fault == LULL_FAULT_PASSING;
}

bool lull_fault_ends_control(enum lull_device_fault fault)
{
    return fault == LULL_FAULT_UNSUPPORTED || fault == LULL_FAULT_NOT_ALLOWED ||
           fault == LULL_FAULT_ALARM;
}

bool lull_fault_may_have_had_effect(enum lull_device_fault fault)
{
    return lull_fault_may_pass(fault) || fault == LULL_FAULT_ALARM;
}

int64_t lull_fault_pause_ns(enum lull_device_fault fault, uint32_t failures)
{
    const uint32_t shift = failures < 7 ? failures - 1 : 6;

    if (fault == LULL_FAULT_GONE)
        return lull_earlier_ns(gone_first_ns << shift, gone_last_ns);
    return passing_first_ns << shift;
}
