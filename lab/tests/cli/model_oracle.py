"""The second implementation of what `lull model` computes: plain loops, least squares by all subsets of terms; and
devices that are drawn.
SPDX-License-Identifier: Apache-2.0"""
import itertools
import math
import random
import statistics

HEADER = "gpu,set,app,arg,cuda_kernel,core_mhz,mem_mhz,time_ms,power_w,valid"


def solve(matrix, right):
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda k: abs(rows[k][i]))
        if abs(rows[pivot][i]) < 1e-13:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(len(rows)):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [rows[i][-1] / rows[i][i] for i in range(len(rows))]


def least_squares(rows, measured):
    """Non-negative coefficients of least relative error."""
    rows = [[value / y for value in row] for row, y in zip(rows, measured)]
    best = (float(len(rows)), [0.0] * len(rows[0]))
    for size in range(1, len(rows[0]) + 1):
        for terms in itertools.combinations(range(len(rows[0])), size):
            found = solve([[sum(row[i] * row[j] for row in rows) for j in terms] for i in terms],
                          [sum(row[i] for row in rows) for i in terms])
            if found is None or min(found) < 0:
                continue
            whole = [0.0] * len(rows[0])
            for term, value in zip(terms, found):
                whole[term] = value
            error = sum((sum(a * b for a, b in zip(row, whole)) - 1) ** 2 for row in rows)
            if error < best[0] - 1e-15:
                best = (error, whole)
    return best[1]


def quantile(values, p):
    values = sorted(values)
    at = p * (len(values) - 1)
    low = min(int(at), len(values) - 2)
    return values[low] + (values[low + 1] - values[low]) * (at - low)


def bound(errors, kernels):
    """The least interval of a further kernel, and how much it grows with its doubt."""
    usual = 0.3 * math.sqrt(statistics.fmean(error ** 2 for error, _ in errors))
    slope = quantile([error / (usual + doubt) for error, doubt in errors], 1 - 0.05 * kernels / (kernels + 4))
    return slope * usual, slope


SHAPES = [(p, share / 40) for p in (1, 1.5, 2, 3, 4, 6, 10, 30) for share in range(41)]
SIGMA, RANGE, NOISE, REACHES = 0.007, 0.5, 1.2, (0.05, 0.1, 0.3, 1.0)


class Device:
    """Kernels measured at the same points, times[k][i] and powers[k][i]."""

    def __init__(self, points, times, powers):
        self.points, self.times, self.powers = points, times, powers
        self.counters = None
        self.learnt = 0  # how often something was learnt from other kernels
        self.clocks = sorted({sm for sm, _ in points})
        memory = sorted({mem for _, mem in points})
        self.has_memory = len(memory) > 1
        self.base = points.index((self.clocks[-1], memory[-1]))
        self.ratios = [(sm / self.clocks[-1], mem / memory[-1]) for sm, mem in points]
        corners = {(sm, mem) for sm in (self.clocks[0], self.clocks[-1]) for mem in (memory[0], memory[-1])}
        middle = (self.clocks[len(self.clocks) // 2], memory[len(memory) // 2])
        self.ends = sorted(map(points.index, corners))
        self.probes = sorted(map(points.index, corners | {middle}))

    def fit_time(self, times, probes=None):
        return self.fit_time_with_doubt(times, probes)[0]

    def fit_time_with_doubt(self, times, probes=None):
        """Times at all points, and their standard deviation over the shapes as a part of them."""
        probes = self.probes if probes is None else probes
        shapes = [[(((1 - r) / sm) ** p + (r / mem) ** p) ** (1 / p) for sm, mem in self.ratios] for p, r in SHAPES]
        fits = []
        for shape in shapes:
            fixed, scale = least_squares([[1.0, shape[i]] for i in probes], [times[i] for i in probes])
            values = [fixed + scale * value for value in shape]
            fits.append((sum((values[i] / times[i] - 1) ** 2 for i in probes), values))
        least = min(error for error, _ in fits)
        weights = [math.exp(-(error - least) / (2 * SIGMA ** 2)) for error, _ in fits]
        means = [sum(w * values[i] for w, (_, values) in zip(weights, fits)) / sum(weights)
                 for i in range(len(self.points))]
        return means, [math.sqrt(sum(w * (values[i] / mean - 1) ** 2 for w, (_, values) in zip(weights, fits))
                                 / sum(weights)) for i, mean in enumerate(means)]

    def near_probes(self, left, probes):
        """What is left at the probes, spread over all points."""
        widths = [(max(axis) - min(axis)) or 1.0 for axis in zip(*self.ratios)]

        def alike(a, b):
            return math.exp(-sum(((x - y) / width) ** 2 for x, y, width in
                                 zip(self.ratios[a], self.ratios[b], widths)) / (2 * RANGE ** 2))

        weights = solve([[alike(i, j) + (NOISE if i == j else 0) for j in probes] for i in probes], left)
        return [sum(w * alike(i, j) for w, j in zip(weights, probes)) for i in range(len(self.points))]

    def curve(self, without):
        low, top = self.clocks[0] ** 3, self.clocks[-1] ** 3
        rise = {clock: (clock ** 3 - low) / (top - low) for clock in self.clocks}
        for _ in range(10):
            weight, total = dict.fromkeys(self.clocks, 0.0), dict.fromkeys(self.clocks, 0.0)
            for k, powers in enumerate(self.powers):
                if k == without:
                    continue
                fixed, dynamic, memory = self.power_terms(powers, rise, range(len(self.points)))
                for i, (sm, _) in enumerate(self.points):
                    rest = powers[i] - fixed - memory * self.ratios[i][1]
                    weight[sm] += (dynamic / powers[i]) ** 2
                    total[sm] += dynamic * rest / powers[i] ** 2
            level = [total[clock] / weight[clock] for clock in self.clocks]
            assert level == sorted(level), "the devices that are drawn need no pooling"
            rise = {clock: (value - level[0]) / (level[-1] - level[0]) for clock, value in zip(self.clocks, level)}
        return rise

    def power_terms(self, powers, rise, probes):
        rows = [[1.0, rise[self.points[i][0]]] + [self.ratios[i][1]] * self.has_memory for i in probes]
        return (least_squares(rows, [powers[i] for i in probes]) + [0.0])[:3]

    def fit_power(self, powers, rise, probes):
        fixed, dynamic, memory = self.power_terms(powers, rise, probes)
        return [fixed + dynamic * rise[sm] + memory * mem for (sm, _), (_, mem) in zip(self.points, self.ratios)]

    def changes(self, values, probes):
        return [math.log(values[i] / values[probes[-1]]) for i in probes[:-1]]

    def finish(self, kernel, measured, fitted, features, probes):
        """The prediction of a kernel from the fits of all."""
        residual = [[math.log(a / b) for a, b in zip(*pair)] for pair in zip(measured, fitted)]
        spread = [statistics.pvariance(column) for column in zip(*features)]

        def mean(of, others, reach):
            weights = [1 / (reach + statistics.fmean((a - b) ** 2 / v if v > 0 else 0 for a, b, v in
                                                     zip(features[of], features[k], spread))) for k in others]
            return [sum(w * residual[k][i] for w, k in zip(weights, others)) / sum(weights)
                    for i in range(len(self.points))]

        others = [k for k in range(len(measured)) if k != kernel]
        scores = [(sum(abs(value) for k in others for value in residual[k]), None)]
        for reach in REACHES:
            scores.append((sum(abs(a - b) for k in others for a, b in
                               zip(residual[k], mean(k, [j for j in others if j != k], reach))), reach))
        reach = min(scores, key=lambda score: score[0])[1]
        self.learnt += reach is not None
        learnt = mean(kernel, others, reach) if reach else [0.0] * len(self.points)
        near = self.near_probes([residual[kernel][i] - learnt[i] for i in probes], probes)
        return [a * math.exp(b + c) for a, b, c in zip(fitted[kernel], learnt, near)]

    def predict_powers(self, probes):
        features = [self.changes(powers, probes) + self.changes(times, probes)
                    + [statistics.fmean(math.log(powers[i]) for i in probes)]
                    for powers, times in zip(self.powers, self.times)]
        predicted = []
        for k in range(len(self.powers)):
            rise = self.curve(k)
            fitted = [self.fit_power(powers, rise, probes) for powers in self.powers]
            predicted.append(self.finish(k, self.powers, fitted, features, probes))
        return predicted

    def error(self, predicted, measured, probes):
        return statistics.fmean(abs(a[i] / b[i] - 1) for a, b in zip(predicted, measured)
                                for i in range(len(self.points)) if i not in probes)

    def pick(self, times, powers, limit):
        allowed = [i for i in range(len(times)) if times[i] <= times[self.base] * limit]
        return min(allowed, key=lambda i: times[i] * powers[i])

    def share(self, times, powers, limit, tolerated=math.inf):
        """What the picks save of what could be, where one that is slower than tolerated saves nothing."""
        available = realised = 0.0
        for k, measured in enumerate(zip(self.times, self.powers)):
            energy = [t * p for t, p in zip(*measured)]
            available += 1 - energy[self.pick(*measured, limit)] / energy[self.base]
            picked = self.pick(times[k], powers[k], limit)
            if measured[0][picked] <= measured[0][self.base] * tolerated:
                realised += 1 - energy[picked] / energy[self.base]
        return realised / available

    def left_out_errors(self):
        """|log(measured / predicted)| of times, powers and energies of known kernels: each inner clock left out in
        turn, and what the models leave at the other points spread over its own."""
        times, powers, energies = [], [], []
        rise = self.curve(len(self.powers))
        widths = [0.1 * (max(axis) - min(axis)) for axis in zip(*self.points)]
        for c, clock in list(enumerate(self.clocks))[1:-1]:
            low, high = self.clocks[c - 1], self.clocks[c + 1]
            bent = dict(rise)
            bent[clock] = rise[low] + (rise[high] - rise[low]) * (clock - low) / (high - low)
            kept = [i for i, (sm, _) in enumerate(self.points) if sm != clock]
            for k in range(len(self.times)):
                left = []
                for measured, fitted in ((self.times[k], self.fit_time(self.times[k], kept)),
                                         (self.powers[k], self.fit_power(self.powers[k], bent, kept))):
                    rest = [math.log(a / b) for a, b in zip(measured, fitted)]
                    left.append([rest[i] - self.spread(i, kept, rest, widths)
                                 for i in range(len(self.points)) if i not in kept])
                times += map(abs, left[0])
                powers += map(abs, left[1])
                energies += [abs(a + b) for a, b in zip(*left)]
        return times, powers, energies

    def spread(self, at, kept, rest, widths):
        weights = [math.exp(-sum(((a - b) / width) ** 2 for a, b, width in
                                 zip(self.points[i], self.points[at], widths) if width > 0) / 2) for i in kept]
        return sum(w * rest[i] for w, i in zip(weights, kept)) / (sum(weights) + 1e-9)

    def probe(self, times, powers, rise):
        """A kernel from its own probes and a curve: times, their doubts, powers."""
        fitted, doubts = self.fit_time_with_doubt(times)
        both = []
        for measured, values in ((times, fitted), (powers, self.fit_power(powers, rise, self.probes))):
            near = self.near_probes([math.log(measured[i] / values[i]) for i in self.probes], self.probes)
            both.append([a * math.exp(b) for a, b in zip(values, near)])
        return both[0], doubts, both[1]

    def probed_errors(self):
        """The same of kernels that are fitted from their probes, with the curve of the others: (error, doubt) of each
        kernel and point."""
        times, powers, energies = [], [], []
        for k in range(len(self.times)):
            time, doubts, power = self.probe(self.times[k], self.powers[k], self.curve(k))
            for i in range(len(self.points)):
                if i not in self.probes:
                    a, b = math.log(self.times[k][i] / time[i]), math.log(self.powers[k][i] / power[i])
                    times.append((abs(a), doubts[i]))
                    powers.append((abs(b), 0))
                    energies.append((abs(a + b), doubts[i]))
        return times, powers, energies

    def online_figures(self):
        alone = [self.probe(times, powers, self.curve(k))
                 for k, (times, powers) in enumerate(zip(self.times, self.powers))]
        times, powers = [one[0] for one in alone], [one[2] for one in alone]
        return {"time_mape_alone_ratio": self.error(times, self.times, self.probes),
                "pick_share_online_ratio": self.share(times, powers, math.inf),
                "pick_kept_within5_online_ratio": self.share(times, powers, 1.05, 1.05)}

    def prior(self, measured, features):
        """The changes from the base that features tell, and those of the three nearest kernels: every prediction
        solves the system of the kernels that it is made from."""
        changes = [[math.log(value / values[self.base]) for value in values] for values in measured]
        columns = [(statistics.fmean(column), statistics.pstdev(column)) for column in zip(*features)]
        places = [[(value - mean) / deviation for value, (mean, deviation) in zip(row, columns)] for row in features]
        kernels = range(len(measured))

        def far(a, b):
            return statistics.fmean((x - y) ** 2 for x, y in zip(places[a], places[b]))

        def mean_of(rows, weights):
            return [sum(w * row[i] for w, row in zip(weights, rows)) for i in range(len(self.points))]

        def regress(kernel, others, length, slope, noise):
            def alike(a, b):
                return 10 + slope * statistics.fmean(x * y for x, y in zip(places[a], places[b])) \
                    + math.exp(-far(a, b) / (2 * length ** 2))
            weights = solve([[alike(i, j) + (noise if i == j else 0) for j in others] for i in others],
                            [alike(kernel, j) for j in others])
            return mean_of([changes[j] for j in others], weights)

        both, nearest = [], []
        for kernel in kernels:
            others = [k for k in kernels if k != kernel]
            forms = []
            for form in itertools.product((0.5, 1, 2, 4), (0.1, 0.3, 1, 3), (0.001, 0.01, 0.03, 0.1, 0.3)):
                error = statistics.fmean(
                    abs(a - b) for j in others
                    for a, b in zip(regress(j, [k for k in others if k != j], *form), changes[j]))
                forms.append(((error + 1e-6) ** -20, regress(kernel, others, *form)))
            whole = sum(weight for weight, _ in forms)
            regressed = mean_of([row for _, row in forms], [weight / whole for weight, _ in forms])
            near = sorted(others, key=lambda k, to=kernel: far(to, k))[:3]
            weights = [1 / (math.sqrt(far(kernel, k)) + 1e-9) for k in near]
            ratios = mean_of([[math.exp(change) for change in changes[k]] for k in near],
                             [weight / sum(weights) for weight in weights])
            nearest.append([math.log(ratio) for ratio in ratios])
            both.append([(a + b) / 2 for a, b in zip(regressed, nearest[-1])])
        return [self.error([[math.exp(change) * values[self.base] for change in row]
                            for row, values in zip(rows, measured)], measured, [self.base]) for rows in (both, nearest)]

    def prior_figures(self):
        time, time_nearest = self.prior(self.times, self.counters)
        powers = [row + [values[self.base]] for row, values in zip(self.counters, self.powers)]
        power, power_nearest = self.prior(self.powers, powers)
        return {"time_mape_prior_ratio": time, "time_mape_neighbours_ratio": time_nearest,
                "power_mape_prior_ratio": power, "power_mape_neighbours_ratio": power_nearest}

    def figures(self):
        alone = [self.fit_time(times) for times in self.times]
        features = [self.changes(times, self.probes) for times in self.times]
        times = [self.finish(k, self.times, alone, features, self.probes) for k in range(len(self.times))]
        powers = self.predict_powers(self.probes)
        return {"time_mape_heldout_ratio": self.error(times, self.times, self.probes),
                "power_mape_heldout_ratio": self.error(powers, self.powers, self.probes),
                "power_mape_loko_ratio": self.error(self.predict_powers(self.ends), self.powers, self.ends),
                "pick_share_ratio": self.share(times, powers, math.inf),
                "pick_share_within5_ratio": self.share(times, powers, 1.05),
                "pick_kept_within5_ratio": self.share(times, powers, 1.05, 1.05), **self.online_figures()}


def draw(seed, kernels, clocks, memory):
    """A device with a voltage knee, whose bandwidth falls at low clocks, and which draws more where memory is used;
    kernels of all kinds, with some scatter: what the models leave is alike in kernels that are."""
    rand = random.Random(seed)
    points = [(sm, mem) for sm in clocks for mem in memory]
    times, powers, counters = [], [], []
    for _ in range(kernels):
        share, fixed, p = rand.random(), 0.2 * rand.random(), rand.choice((1, 2, 8))
        static, shared, dynamic = rand.uniform(20, 60), rand.uniform(0, 40), rand.uniform(60, 200)
        time, power = [], []
        for sm, mem in points:
            f, m = sm / clocks[-1], mem / memory[-1]
            memory_time = share / m * (1 + max(0, 0.75 - f))
            time.append((fixed + (((1 - share) / f) ** p + memory_time ** p) ** (1 / p)) * rand.gauss(1, 0.001))
            power.append((static + shared * m + dynamic * f * max(0.7, f) ** (1 + 2 * share)) * rand.gauss(1, 0.002))
        times.append(time)
        powers.append(power)
        counters.append([share * rand.uniform(0.8, 1), static * dynamic * rand.uniform(0.8, 1), 3 * rand.random()])
    device = Device(points, times, powers)
    device.counters = counters
    return device


def table(device, gpu="drawn", power=True, counters=False):
    names = ",dram_active,ipc,shared_load_throughput" * counters
    lines = [HEADER + names]
    for k, (times, powers) in enumerate(zip(device.times, device.powers)):
        more = "".join(f",{value!r}" for value in device.counters[k]) if counters else ""
        for (sm, mem), t, p in zip(device.points, times, powers):
            lines.append(f"{gpu},s,app{k},0,k,{sm},{mem},{t!r},{repr(p) if power else ''},1{more}")
    return "\n".join(lines) + "\n"
