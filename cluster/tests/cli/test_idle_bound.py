"""Bounds of small random sets of jobs beside every schedule of them: none may need less than the bound. The schedules,
their energy and that of idle GPUs are computed here and share nothing with Lull. Operating points are drawn at random,
so that some are slower and cost more, and pay only because GPUs are idle for less time, or because they fit under a cap.

Usage: test_idle_bound.py LULL [COUNT [FIRST_SEED]]
SPDX-License-Identifier: Apache-2.0"""
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

LULL = os.path.abspath(sys.argv[1])
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 60
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 1
GPUS = 8
FULL_W = 700
POLICIES = ["fifo", "edf", "lpt", "backfill", "greedy-energy", "srtf"]


def draw_points(rng):
    points, ratio = [[1.0, rng.randint(200, FULL_W)]], 1.0
    for _ in range(rng.randint(0, 3)):
        ratio = round(ratio + rng.uniform(0.05, 0.7), 3)
        points.append([ratio, max(60, round(points[-1][1] * rng.uniform(0.5, 1.05)))])
    return points


def draw_job(rng):
    submit, length = rng.choice([0, 0, rng.randint(0, 200)]), rng.randint(30, 400)
    deadline = submit + round(length * rng.uniform(1, 5)) if rng.random() < 0.5 else None
    return {"submit": submit, "length": length, "gpus": rng.choice([1, 2, 4, 8]), "deadline": deadline,
            "points": draw_points(rng)}


def draw(seed):
    rng = random.Random(seed)
    jobs = sorted((draw_job(rng) for _ in range(rng.randint(1, 3))), key=lambda job: job["submit"])
    idle_w = rng.choice([0, rng.randint(10, 60), rng.randint(60, 300)])
    least_w = max(GPUS * idle_w + job["gpus"] * (max(w for _, w in job["points"]) - idle_w) for job in jobs)
    cap_w = round(least_w * rng.uniform(1, 1.5)) + 1 if rng.random() < 0.25 else None
    return {"jobs": jobs, "idle_w": idle_w, "cap_w": cap_w, "policy": rng.choice(POLICIES),
            "slot": rng.choice(["", "=1", "=5", "=20", "=60"])}


def run(case, directory):
    """What Lull prints, and when each job ended under the policy."""
    table = {"gpus": {"g": {"idle_w": case["idle_w"], "full_w": FULL_W}}, "jobs": {}}
    with open(os.path.join(directory, "jobs.csv"), "w", encoding="utf-8") as file:
        print("job_id,submit_s,duration_s,num_gpus,job_type,deadline_s", file=file)
        for i, job in enumerate(case["jobs"]):
            print(i, job["submit"], job["length"], job["gpus"], f"t{i}",
                  "" if job["deadline"] is None else job["deadline"], sep=",", file=file)
            table["jobs"][f"t{i}"] = {"time_s": job["length"], "gpus": {"g": [
                {"sm_mhz": 0 if k == 0 else 1500 - 100 * k, "time_ratio": ratio, "gpu_w": w}
                for k, (ratio, w) in enumerate(job["points"])]}}
    with open(os.path.join(directory, "points.json"), "w", encoding="utf-8") as file:
        json.dump(table, file)
    words = [LULL, "simulate", "cluster", "--policy", case["policy"], "--nodes", "1", "--points", "points.json",
             "--bound" + case["slot"], "--json", "--jobs-out", "out.csv", "jobs.csv"]
    if case["cap_w"] is not None:
        words += ["--power-cap", str(case["cap_w"]), "--peak-ratio", "1"]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(directory, "out.csv"), encoding="utf-8") as file:
        head, *rows = (line.rstrip("\n").split(",") for line in file)
    return json.loads(done.stdout), [float(row[head.index("end_s")]) for row in rows]


def mixtures(rng, points):
    """The points, and runs that change from one to another on the way: time and energy of each part of the work."""
    for ratio, w in points:
        yield [(ratio, w)]
    for (slow, low_w), (fast, high_w) in itertools.combinations(points, 2):
        share = rng.random()
        yield [(slow * share, low_w), (fast * (1 - share), high_w)]


def fits(pieces, piece, case):
    """Whether a piece (begin, end, GPUs, watts above idle) has room among the others at each of their begins."""
    times = {piece[0]} | {other[0] for other in pieces if piece[0] < other[0] < piece[1]}
    for time in times:
        running = [other for other in pieces + [piece] if other[0] <= time < other[1]]
        if sum(other[2] for other in running) > GPUS:
            return False
        if case["cap_w"] is not None and \
                GPUS * case["idle_w"] + sum(other[3] for other in running) > case["cap_w"] * (1 + 1e-12):
            return False
    return True


def place(pieces, job, parts, case):
    """Starts the job as soon as it has room, behind those that are placed. Returns its pieces."""
    for start in sorted({float(job["submit"])} | {other[1] for other in pieces if other[1] > job["submit"]}):
        made, at = [], start
        for ratio, w in parts:
            made.append((at, at + ratio * job["length"], job["gpus"], job["gpus"] * max(w - case["idle_w"], 0)))
            at = made[-1][1]
        if all(fits(pieces, piece, case) for piece in made):
            return made
    raise AssertionError("no start, which a job has when all others have ended")


def least_energy(case, ends, rng):
    """The least energy of all GPUs until the last end, of all schedules that end by the policy's last end and miss no
    deadline that it met: each job starts as soon as it can, in every order. A later start saves nothing."""
    jobs, horizon, best = case["jobs"], max(ends), float("inf")
    for modes in itertools.product(*(list(mixtures(rng, job["points"])) for job in jobs)):
        run_j = sum(ratio * job["length"] * job["gpus"] * w for job, parts in zip(jobs, modes) for ratio, w in parts)
        busy = sum(ratio * job["length"] * job["gpus"] for job, parts in zip(jobs, modes) for ratio, _ in parts)
        for order in itertools.permutations(range(len(jobs))):
            pieces, last = [], 0.0
            for number in order:
                made = place(pieces, jobs[number], modes[number], case)
                end, deadline = made[-1][1], jobs[number]["deadline"]
                if end > horizon or (deadline is not None and ends[number] <= deadline < end):
                    break
                pieces, last = pieces + made, max(last, end)
            else:
                best = min(best, run_j + case["idle_w"] * (GPUS * (last - jobs[0]["submit"]) - busy))
    return best


def main():
    gaps = []
    for seed in range(FIRST, FIRST + COUNT):
        case = draw(seed)
        with tempfile.TemporaryDirectory() as directory:
            got, ends = run(case, directory)
        best = least_energy(case, ends, random.Random(seed))
        assert got["bound_j"] <= got["energy_j"] * (1 + 1e-9), (seed, case, got["bound_j"], got["energy_j"])
        assert got["bound_j"] <= best * (1 + 1e-9), f"seed {seed}: bound {got['bound_j']:.9g}, schedule {best:.9g}: {case}"
        gaps.append(min(best, got["energy_j"]) / got["bound_j"])
    gaps.sort()
    print(f"{COUNT} sets: the best schedule needs {gaps[len(gaps) // 2]:.4f} times the bound (median), {gaps[-1]:.3f} at most")


main()
