"""Pictures of web pages, in light and dark and on a narrow screen: of a run's page, which is made from docs/user/report-example.json, and of the
live page of `lull serve` while two jobs run on an emulated node. Needs headless Chromium, and pdftoppm for the printed page.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import picture
import terminal

sys.path.insert(0, os.path.join(picture.ROOT, "tools"))
import emulated_run

# Name, width and height in pixels, and more options of Chromium. A window is at least 500 pixels wide, so the
# narrow one is a frame within it.
SCREENS = {"light": (1040, 2200, []), "dark": (1040, 1500, ["--blink-settings=preferredColorScheme=0"]),
           "narrow": (500, 1700, [])}


LIVE_S = 240  # the longest time until the jobs behind the live page have settled
MINUTE_S = 62  # at least: the page shows the power of the last minute


def chromium(*options):
    subprocess.run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options], check=True,
                   capture_output=True, timeout=120)


def take(directory, address, name, width, height, options):
    """Takes a picture of a page that is loaded, whatever it goes on with."""
    chromium(f"--user-data-dir={directory}/profile", *options, "--timeout=8000", f"--window-size={width},{height}",
             f"--screenshot={picture.DOCS}/admin/serve-{name}.png", address)


def start_job(lull, directory, gpus, command, options, slurm):
    report = os.path.join(directory, "live-" + gpus[0])
    return subprocess.Popen([lull, "run", "--quiet", *options, "--report", report, "--", *command.split()], cwd=directory,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=dict(os.environ, CUDA_VISIBLE_DEVICES=gpus, **slurm))


def wait_for_saving(address):
    for second in range(LIVE_S):
        time.sleep(1)
        with urllib.request.urlopen(address + "api/v1/node") as answer:
            savings = [job["saving_ratio"] for job in json.load(answer)["jobs"]]
        if second > MINUTE_S and savings and None not in savings:
            return
    print(f"not all jobs have settled within {LIVE_S} s; the pictures show them as they are", file=sys.stderr)


def show_node(build, directory):
    """Within the emulated node: lulld, the server and two jobs; then pictures, once the jobs have settled. The narrow one
    is of the page as it was loaded, because a frame may not show the server's own."""
    lull = emulated_run.program(build, "src/cli/lull")
    os.environ["LULL_RUNTIME_DIR"] = os.path.join(directory, "run")
    daemon = emulated_run.Daemon(build, os.environ["LULL_RUNTIME_DIR"])
    serve = subprocess.Popen([lull, "serve", "--port", "0", "--runs", os.path.join(directory, "runs")], stdout=subprocess.PIPE, text=True)
    address = serve.stdout.readline().strip()
    jobs = [start_job(lull, directory, gpus, command, options, slurm) for gpus, command, options, slurm in (
        ("0,1,2,3", "./pretrain --nodes 1", ["--tolerance", "5%"], {}), ("4,5", "./finetune 7b.yaml", [], {"SLURM_JOB_ID": "4711"}))]
    try:
        wait_for_saving(address)
        take(directory, address, "light", 1280, 1320, [])
        take(directory, address, "dark", 1280, 1320, ["--blink-settings=preferredColorScheme=0"])
        with urllib.request.urlopen(address) as answer, open(os.path.join(directory, "live.html"), "wb") as file:
            file.write(answer.read().split(b"<script")[0])
    finally:
        for process in (*jobs, serve, daemon.process):
            process.terminate()
            process.wait()
    with open(os.path.join(directory, "live-narrow.html"), "w", encoding="utf-8") as file:
        file.write('<body style="margin:0;background:#888"><iframe src="live.html" style="width:400px;height:1700px;border:0;'
                   'background:#fff"></iframe>')
    take(directory, f"file://{directory}/live-narrow.html", "narrow", 500, 1700, [])


RUN = ["--no-daemon", "--tolerance", "5%", "--swing", "60%", "--price-per-kwh", "0.30EUR", "--co2-g-per-kwh", "380"]


def make_run(build):
    """Makes docs/user/report-example.json: two ranks on two A100, each 3200 times 80 ms of computation and 60 ms of communication."""
    lull = emulated_run.program(build, "src/cli/lull")
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        with open(os.path.join(directory, "job"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nOMPI_COMM_WORLD_LOCAL_RANK=$1 exec {emulated_run.program(build, "tests/governor/section_job")} '
                       "$1 3200 80 60 0\n")
        os.chmod(os.path.join(directory, "job"), 0o755)
        subprocess.run([lull, "emulate", "--seed", "1", "2xA100-SXM4-40GB", "--", lull, "run", *RUN, "--report", "report", "--",
                        "sh", "-c", "./job 0 & ./job 1 & wait"], cwd=directory, check=True, stdin=subprocess.DEVNULL,
                       env=dict(os.environ, LULL_RUNTIME_DIR=directory))
        shutil.copy(os.path.join(directory, "report", "report.json"), os.path.join(picture.DOCS, "user", "report-example.json"))


def make_page(lull, directory):
    """Makes the page of a run that is called 2026-11-27-201502, in a folder of runs where there is no other, and one with a narrow
    frame around it."""
    name = "runs/2026-11-27-201502"
    os.makedirs(os.path.join(directory, name))
    shutil.copy(os.path.join(picture.DOCS, "user", "report-example.json"), os.path.join(directory, name, "report.json"))
    subprocess.run([lull, "report", name], cwd=directory, check=True, stdout=subprocess.DEVNULL)
    frame = os.path.join(directory, "narrow.html")
    with open(frame, "w", encoding="utf-8") as file:
        file.write('<body style="margin:0;background:#888"><iframe src="' + name + '/report.html" style="width:400px;height:1700px;border:0;'
                   'background:#fff"></iframe>')
    return os.path.join(directory, name, "report.html"), frame


def alone():
    """A command before another that hides from it what other runs of this machine publish; nothing where that is not allowed."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]
    if shutil.which("unshare") and subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0:
        return words
    print("runs of others on this machine will be seen in the pictures of the live page", file=sys.stderr)
    return []


def draw(build):
    if shutil.which("chromium") is None:
        print("skipped: the pictures of pages need chromium", file=sys.stderr)
        return
    lull, docs = emulated_run.program(build, "src/cli/lull"), os.path.join(picture.DOCS, "user")
    with tempfile.TemporaryDirectory(prefix="lull-") as directory:
        page, frame = make_page(lull, directory)
        terminal.write_jobs(build, directory)
        profile = f"--user-data-dir={directory}/profile"
        for name, (width, height, options) in SCREENS.items():
            chromium(profile, *options, f"--window-size={width},{height}", f"--screenshot={docs}/report-{name}.png",
                     "file://" + (frame if name == "narrow" else page))
        subprocess.run([*alone(), lull, "emulate", "8xA100-SXM4-40GB", "--", sys.executable, os.path.abspath(__file__), build, directory],
                       check=True, stdin=subprocess.DEVNULL)
        if shutil.which("pdftoppm") is None:
            print("skipped: the picture of the printed page needs pdftoppm", file=sys.stderr)
            return
        printed = os.path.join(directory, "page.pdf")
        chromium(profile, "--no-pdf-header-footer", f"--print-to-pdf={printed}", "file://" + page)
        subprocess.run(["pdftoppm", "-png", "-r", "80", "-f", "1", "-l", "1", "-singlefile", printed,
                        os.path.join(docs, "report-print")], check=True)


if __name__ == "__main__":
    show_node(*sys.argv[1:])
