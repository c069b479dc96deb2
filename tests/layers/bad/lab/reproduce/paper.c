/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/batch.h"
#include "cli/shared/command.h"
