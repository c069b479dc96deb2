/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/jobs.h"
