/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/batch.h"
#include "simulator/summary.h"
#include "store/store.h"
