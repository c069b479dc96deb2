/* A header of another part. SPDX-License-Identifier: Apache-2.0 */
