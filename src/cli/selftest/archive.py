"""The archive of a selftest: files without personal data, and the list of what was removed. SPDX-License-Identifier: Apache-2.0"""
import csv
import gzip
import io
import json
import os
import tarfile

from scrub import Scrubber

FOLDER = "lull-selftest"


class Archive:
    def __init__(self):
        self.files = {}  # texts, and documents
        self.scrubber = Scrubber()

    def add_document(self, name, document):
        self.files[name] = self.scrubber.document(document)

    def add_record(self, name, record):
        """A record of nvml_dump, whose identities are removed from all files that follow, too."""
        self.files[name] = self.scrubber.record(record)

    def add_text(self, name, text):
        self.files[name] = self.scrubber.text(text)

    def add_table(self, name, path):
        """A dataset of lull sweep and its description; returns the number of rows."""
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            self.scrubber.remember(row["gpu_uuid_hash"], "UUID")
        for file_name in (path, path + ".json"):
            with open(file_name, encoding="utf-8") as file:
                self.add_text(name + file_name[len(path):], file.read())
        return len(rows)

    def removed(self):
        return dict(sorted(self.scrubber.removed.items()))

    def find_left(self):
        """Names of files in which the scrubber would still remove something; it then has an error."""
        left = []
        for name, content in self.files.items():
            again = Scrubber(self.scrubber.names)
            again.document(content)
            if again.removed:
                left.append(f"{name} ({', '.join(again.removed)})")
        return left

    def write(self, path):
        """Writes PATH whole or not at all. No owner, no time and no folder of this machine is in it."""
        self.files["removed.json"] = self.removed()
        data = io.BytesIO()
        with gzip.GzipFile(filename="", fileobj=data, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            for name, content in self.files.items():
                content = (content if isinstance(content, str) else json.dumps(content, indent=1)).encode("utf-8")
                entry = tarfile.TarInfo(f"{FOLDER}/{name}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        new = path + ".new"
        with open(new, "wb") as file:
            file.write(data.getvalue())
        os.replace(new, path)
        return len(data.getvalue())
