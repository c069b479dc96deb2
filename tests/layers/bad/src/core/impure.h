/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMPURE_H
#define IMPURE_H

long impure(void);

#endif
