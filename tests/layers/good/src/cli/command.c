/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/guard.h"
#include "governor/actuator.h"
#include "emulator/workload.h"
