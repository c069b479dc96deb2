"""Removes what identifies a person, a machine or a board, and counts what was removed. SPDX-License-Identifier: Apache-2.0"""
import collections
import getpass
import ipaddress
import os
import pwd
import re

USER_IDS = range(1000, 60000)
# These host and user names identify no person, and occur as ordinary words in the files.
GENERIC = {"root", "(none)", "localhost", "gpu", "gpus", "node", "host", "user", "admin", "nvidia", "lull", "test", "ubuntu", "debian"}
# Outputs of NVML by function or member, and keys of documents.
FUNCTIONS = {"nvmlDeviceGetSerial": "serial number", "nvmlDeviceGetPdi": "serial number", "nvmlDeviceGetUUID": "UUID"}
KEYS = {"uuid": "UUID", "clusterUuid": "UUID", "ibGuid": "UUID", "rackGuid": "UUID", "chassisSerialNumber": "serial number",
        "serial": "serial number", "licenseInfo": "licence", "licenseExpiry": "licence", "hostname": "host name", "host": "host name",
        "user": "user name", "pid": "process", "pids": "process", "processName": "process", "command": "command line", "cwd": "path"}
UUID = re.compile(r"\b(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})\b")
MAC = re.compile(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")
MAIL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b")
URL = re.compile(r"\b[a-z][a-z0-9+]*://[^\s\"'<>]+")
ADDRESS_4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)")
ADDRESS_6 = re.compile(r"(?<![\w:.])[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*(?![\w:])")
PATH = re.compile(r"(?<![\w.>/~-])~?/[\w.~+@,=:%-]+(?:/[\w.~+@,=:%-]*)*")
SYSTEM_PATH = re.compile(r"/(?:dev|sys|proc/driver)(?:/|$)")


def known_names():
    """Names of this machine and of its users, longest first."""
    names = {}
    node = os.uname().nodename
    for name in [node, *node.split(".")[:1], *read_words("/etc/hostname"), *read_words("/proc/sys/kernel/domainname")]:
        names[name] = "host name"
    users = [user.pw_name for user in pwd.getpwall() if user.pw_uid in USER_IDS or user.pw_uid == os.getuid()]
    try:
        users.append(getpass.getuser())
    except (KeyError, OSError):
        pass
    users += [os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")]
    names.update((name, "user name") for name in users)
    return {name: kind for name, kind in names.items() if len(name) > 1 and name not in GENERIC}


def read_words(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split()
    except OSError:
        return []


class Scrubber:
    def __init__(self, names=None):
        self.removed = collections.Counter()
        self.names = known_names() if names is None else dict(names)

    def remember(self, text, kind):
        """A text that is removed wherever it appears from now on."""
        if isinstance(text, str) and len(text) > 3 and re.search(r"[1-9a-zA-Z]", text):
            self.names[text] = kind

    def replace(self, kind):
        self.removed[kind] += 1
        return f"<{kind}>"

    def text(self, text):
        text = URL.sub(lambda _: self.replace("address"), text)
        text = MAIL.sub(lambda _: self.replace("address"), text)
        text = PATH.sub(lambda found: found[0] if SYSTEM_PATH.match(found[0]) else self.replace("path"), text)
        text = UUID.sub(lambda _: self.replace("UUID"), text)
        for name in sorted(self.names, key=len, reverse=True):
            if name in text:
                text = re.sub(rf"(?<![\w<]){re.escape(name)}(?![\w>])", lambda _, kind=self.names[name]: self.replace(kind), text)
        text = MAC.sub(lambda _: self.replace("address"), text)
        text = ADDRESS_4.sub(self.replace_address, text)
        return ADDRESS_6.sub(self.replace_address, text)

    def replace_address(self, found):
        try:
            ipaddress.ip_address(found[0])
        except ValueError:
            return found[0]
        return self.replace("address") if re.search(r"\w", found[0]) else found[0]

    def document(self, value, key=None):
        """A copy of a JSON value. Values of personal keys are removed whole. The keys themselves are Lull's words and stay."""
        if key in KEYS and not is_empty(value):
            if not isinstance(value, (dict, list)):
                self.remember(value, KEYS[key])
            return self.replace(KEYS[key])
        if isinstance(value, dict):
            return {name: self.document(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.document(part) for part in value]
        return self.text(value) if isinstance(value, str) else value

    def record(self, record):
        """A record of nvml_dump."""
        functions = {}
        for name, results in record["functions"].items():
            for result in results if name in FUNCTIONS else []:
                for key, value in result.get("out", {}).items():
                    self.remember(value, FUNCTIONS[name])
                    result["out"][key] = self.replace(FUNCTIONS[name])
            functions[name] = results
        return self.document({**record, "functions": functions})


def is_empty(value):
    """Nothing that identifies: null, "", or zeros."""
    return value is None or value == [] or not str(value).strip("0") or (isinstance(value, str) and value.startswith("<"))
