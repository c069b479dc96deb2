#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the store on a PostgreSQL server of its own, which listens on a socket in a new
directory only and is gone afterwards. Skips where no server is installed.

usage: test_postgres.py TEST
"""
import glob
import os
import pwd
import subprocess
import sys
import tempfile


def find_server():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl") + glob.glob("/usr/bin/pg_ctl"))
    return os.path.dirname(found[-1]) if found else None


def become(name):
    """PostgreSQL does not run as root."""
    entry = pwd.getpwnam(name)

    def change():
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    return change


def main(arguments):
    programs = find_server()
    if programs is None:
        print("skipped: no PostgreSQL server is installed")
        return 77
    is_root = os.getuid() == 0
    if is_root and "postgres" not in [entry.pw_name for entry in pwd.getpwall()]:
        print("skipped: no user postgres to run the server as")
        return 77
    change = become("postgres") if is_root else None
    with tempfile.TemporaryDirectory(prefix="lull-pg-") as place:
        if is_root:
            os.chown(place, pwd.getpwnam("postgres").pw_uid, -1)
        data = os.path.join(place, "data")

        def call(*words):
            subprocess.run(words, check=True, cwd=place, preexec_fn=change, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, timeout=60)

        call(os.path.join(programs, "initdb"), "-D", data, "-U", "lull", "-A", "trust", "-N")
        call(os.path.join(programs, "pg_ctl"), "-D", data, "-w", "-l", os.path.join(place, "log"), "-o",
             f"-k {place} -c listen_addresses='' -c fsync=off", "start")
        try:
            location = f"postgresql://lull@/postgres?host={place}"
            return subprocess.run([arguments[0], location], stdin=subprocess.DEVNULL, timeout=100,
                                  check=False).returncode
        finally:
            call(os.path.join(programs, "pg_ctl"), "-D", data, "-w", "-m", "immediate", "stop")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
