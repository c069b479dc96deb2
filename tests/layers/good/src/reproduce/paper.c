/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/batch.h"
#include "simulator/cluster/summary.h"
#include "store/store.h"
