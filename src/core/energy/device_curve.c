/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/device_curve.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------- */

static bool device_curve_is_in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static char device_curve_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool device_curve_is_name(const char *known, const char *name, size_t length)
{
    size_t i = 0;

    while (i < length && known[i] != '\0' &&
           device_curve_lower(known[i]) == device_curve_lower(name[i]))
        i++;
    return i == length && known[i] == '\0';
}

const struct lull_device_curve *lull_device_curve_find(const char *name, size_t length)
{
    for (uint32_t i = 0; i < lull_device_curve_count; i++) {
        const struct lull_device_curve *const curve = &lull_device_curves[i];

        if (device_curve_is_name(curve->name, name, length))
            return curve;
        for (int a = 0; a < LULL_DEVICE_CURVE_ALIASES && curve->aliases[a] != NULL; a++)
            if (device_curve_is_name(curve->aliases[a], name, length))
                return curve;
    }
    return NULL;
}

/* The words of a name. Any character other than a letter or digit separates words. */
enum { MAX_WORDS = 16 };

struct product_words {
    size_t count;
    struct {
        const char *text;
        size_t length;
    } words[MAX_WORDS];
};

static struct product_words device_curve_split(const char *name)
{
    struct product_words words = {0};

    while (*name != '\0' && words.count < MAX_WORDS) {
        size_t length = 0;

        while (device_curve_is_in_word(name[length]))
            length++;
        if (length > 0) {
            words.words[words.count].text = name;
            words.words[words.count++].length = length;
        }
        name += length;
        name += *name != '\0' && !device_curve_is_in_word(*name);
    }
    return words;
}

/* Returns how many words of a product from number `at` on make this word: "RTX 3090" is RTX3090. 0:
 * they do not. */
static size_t match_word(const struct product_words *product, size_t at, const char *word,
                         size_t length)
{
    size_t done = 0;

    for (size_t i = at; i < product->count && i < at + 2; i++) {
        if (product->words[i].length > length - done)
            return 0;
        for (size_t c = 0; c < product->words[i].length; c++)
            if (device_curve_lower(product->words[i].text[c]) != device_curve_lower(word[done + c]))
                return 0;
        done += product->words[i].length;
        if (done == length)
            return i - at + 1;
    }
    return 0;
}

/* Returns how well a name fits a product's, which must have all its words, in any order: twice the
 * letters of the name, and one more if they follow each other. 0: it does not fit. */
static size_t device_curve_match(const struct product_words *product, const char *name)
{
    const struct product_words words = device_curve_split(name);
    size_t letters = 0;
    size_t next = product->count; /* behind the word found last */
    bool is_in_order = true;

    for (size_t w = 0; w < words.count; w++) {
        size_t at = 0;
        size_t taken = 0;

        while (at < product->count &&
               (taken = match_word(product, at, words.words[w].text, words.words[w].length)) == 0)
            at++;
        if (taken == 0)
            return 0;
        is_in_order &= w == 0 || at == next;
        next = at + taken;
        letters += words.words[w].length;
    }
    return letters == 0 ? 0 : 2 * letters + is_in_order;
}

/* Returns how well the best of its names fits the product's. */
static size_t match_any(const struct product_words *product, const struct lull_device_curve *curve)
{
    size_t best = device_curve_match(product, curve->name);

    for (int a = 0; a < LULL_DEVICE_CURVE_ALIASES && curve->aliases[a] != NULL; a++) {
        const size_t fit = device_curve_match(product, curve->aliases[a]);

        if (fit > best)
            best = fit;
    }
    return best;
}

const struct lull_device_curve *lull_device_curve_of_product(const char *product,
                                                             const char **borrower_out)
{
    const struct lull_device_curve *found = NULL;
    const struct product_words words = device_curve_split(product);
    size_t best = 0;

    *borrower_out = NULL;
    for (uint32_t i = 0; i < lull_device_curve_count; i++) {
        const struct lull_device_curve *const curve = &lull_device_curves[i];
        const bool is_measured = curve->borrowed == NULL && !curve->is_guessed;
        const size_t fit = is_measured ? match_any(&words, curve) : 0;

        if (fit > best) {
            best = fit;
            found = curve;
        }
    }
    for (uint32_t i = 0; i < lull_device_borrowing_count; i++) {
        const struct lull_device_borrowing *const borrowing = &lull_device_borrowings[i];
        const size_t fit = device_curve_match(&words, borrowing->product);

        if (fit > best) {
            best = fit;
            found = lull_device_curve_find(borrowing->model, strlen(borrowing->model));
            *borrower_out = borrowing->product;
        }
    }
    return found;
}

const struct lull_device_kernel *lull_device_curve_kernel(const struct lull_device_curve *curve,
                                                          const char *name)
{
    for (uint32_t i = 0; name != NULL && i < curve->kernel_count; i++)
        if (strcmp(curve->kernels[i].name, name) == 0)
            return &curve->kernels[i].kernel;
    return NULL;
}

const struct lull_device_kernel *lull_device_curve_default(const struct lull_device_curve *curve)
{
    const struct lull_device_kernel *kernel = lull_device_curve_kernel(curve, "training");

    if (kernel == NULL)
        kernel = lull_device_curve_kernel(curve, "llm_fwd");
    return kernel != NULL ? kernel : &curve->kernels[0].kernel;
}

const struct lull_device_kernel *lull_device_curve_prefill(const struct lull_device_curve *curve)
{
    const struct lull_device_kernel *kernel = lull_device_curve_kernel(curve, "llm_fwd");

    if (kernel == NULL)
        kernel = lull_device_curve_kernel(curve, "llm_gemm");
    return kernel != NULL ? kernel : lull_device_curve_default(curve);
}

const struct lull_device_kernel *lull_device_curve_decode(const struct lull_device_curve *curve)
{
    const struct lull_device_kernel *kernel = lull_device_curve_kernel(curve, "llm_decode");

    return kernel != NULL ? kernel : lull_device_curve_kernel(curve, "stream");
}

/* ---- clocks ------------------------------------------------------------------------------- */

double lull_device_line_at(const struct lull_device_line *line, double mhz)
{
    uint32_t right = 0;

    assert(line->count > 0 && line->count <= LULL_DEVICE_CURVE_POINTS);
    while (right < line->count && line->points[right].mhz < mhz)
        right++;
    if (right == 0)
        return line->points[0].value;
    if (right == line->count)
        return line->points[right - 1].value;

    const double from_mhz = line->points[right - 1].mhz;
    const double from = line->points[right - 1].value;

    return from + (line->points[right].value - from) * (mhz - from_mhz) /
                      (line->points[right].mhz - from_mhz);
}

struct lull_device_clock lull_device_clock_at(const struct lull_device_curve *curve, double mhz)
{
    const double core_ratio = mhz / curve->sm_max_mhz;
    const double volts = lull_device_line_at(&curve->voltage, mhz);

    return (struct lull_device_clock){
        .mhz = mhz,
        .core_ratio = core_ratio,
        .bandwidth_ratio = lull_device_line_at(&curve->bandwidth, mhz),
        .dynamic_ratio = core_ratio * volts * volts,
        .waiting_w = lull_device_line_at(&curve->waiting_w, mhz),
    };
}

uint32_t lull_device_clocks(const struct lull_device_curve *curve,
                            struct lull_device_clock *clocks_out)
{
    const uint32_t steps =
        (uint32_t)lround((curve->sm_max_mhz - curve->sm_min_mhz) / curve->sm_step_mhz);

    assert(steps < LULL_DEVICE_CURVE_CLOCKS);
    for (uint32_t i = 0; i <= steps; i++)
        clocks_out[i] =
            lull_device_clock_at(curve, curve->sm_min_mhz + (steps - i) * curve->sm_step_mhz);
    return steps + 1;
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* The time of a kernel whose memory is as fast as at the highest clock. */
static double fed_time(const struct lull_device_clock *clock,
                       const struct lull_device_kernel *kernel)
{
    return kernel->memory_ratio + (1.0 - kernel->memory_ratio) / clock->core_ratio;
}

double lull_device_kernel_time(const struct lull_device_clock *clock,
                               const struct lull_device_kernel *kernel)
{
    return kernel->memory_ratio / clock->bandwidth_ratio +
           (1.0 - kernel->memory_ratio) / clock->core_ratio;
}

double lull_device_kernel_w(const struct lull_device_clock *clock,
                            const struct lull_device_kernel *kernel)
{
    const double reached =
        fmin(fed_time(clock, kernel) / lull_device_kernel_time(clock, kernel), 1.0);

    return fmax(kernel->base_w + kernel->slope_w * clock->dynamic_ratio * reached,
                clock->waiting_w);
}

uint32_t lull_device_kernel_limited(const struct lull_device_clock *clocks, uint32_t count,
                                    const struct lull_device_kernel *kernel, double limit_w,
                                    uint32_t asked)
{
    uint32_t clock = asked;

    assert(asked < count);
    while (clock + 1 < count && lull_device_kernel_w(&clocks[clock], kernel) > limit_w)
        clock++;
    return clock;
}

struct lull_device_run lull_device_kernel_run(const struct lull_device_clock *clocks,
                                              uint32_t count,
                                              const struct lull_device_kernel *kernel,
                                              double limit_w, uint32_t asked)
{
    const struct lull_device_clock *const at =
        &clocks[lull_device_kernel_limited(clocks, count, kernel, limit_w, asked)];
    const struct lull_device_clock *const highest =
        &clocks[lull_device_kernel_limited(clocks, count, kernel, limit_w, 0)];

    return (struct lull_device_run){
        .time_ratio =
            lull_device_kernel_time(at, kernel) / lull_device_kernel_time(highest, kernel),
        .watts = lull_device_kernel_w(at, kernel),
    };
}

/* ---- transfers ---------------------------------------------------------------------------- */

double lull_device_transfer_gbs(const struct lull_device_curve *curve, double link_gbs,
                                uint32_t channels, double mhz)
{
    /* A reduction reads its own byte, reads or receives the other one and writes the result. */
    const double accesses_per_byte = 3.0;
    /* The rate that SMs can drive goes as f^0.72 to f^0.85: derived from measured collectives of an
     * A100 (Kareus). */
    const double exponent = 0.8;
    const struct lull_device_clock clock = lull_device_clock_at(curve, mhz);
    const double channels_gbs = channels * curve->channel_gbs * pow(clock.core_ratio, exponent);
    const double memory_gbs = clock.bandwidth_ratio * curve->bandwidth_gbs / accesses_per_byte;

    return fmin(link_gbs, fmin(channels_gbs, memory_gbs));
}

double lull_device_transfer_w(const struct lull_device_curve *curve, double rate_gbs,
                              uint32_t channels, double mhz)
{
    const double highest = lull_device_clock_at(curve, curve->sm_max_mhz).dynamic_ratio;
    const double poll_w =
        channels * curve->poll_w * lull_device_clock_at(curve, mhz).dynamic_ratio / highest;

    return poll_w + curve->link_w * fmin(rate_gbs / curve->link_gbs, 1.0);
}
