# SPDX-License-Identifier: Apache-2.0
"""C source files as text, for the tools that count, check and change them."""
import os
import re

# Comments, strings and characters: what looks like code inside them is none.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text, strings=True):
    """The text with comments, and strings where asked, blanked: every other character keeps its place."""
    def replace(match):
        found = match.group(0)
        return found if not strings and found[0] in "\"'" else re.sub(r"[^\n]", " ", found)

    return NOT_CODE.sub(replace, text)


def list_files(root, folders, endings):
    """Paths below the folders of a tree, relative to its root, in order."""
    for folder in folders:
        for directory, subdirectories, names in os.walk(os.path.join(root, folder)):
            subdirectories.sort()
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(directory, name), root)


PARTS = ("src", "cluster", "lab")


def list_part(root, part, endings):
    """The files of a part that are built into what is installed."""
    for path in list_files(root, (part,), endings):
        if path.split(os.sep)[1] not in ("tests", "bench"):
            yield path


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def nested_ternaries(code):
    """Lines of each `?` that stands inside another conditional expression, in blanked text."""
    found, open_ternary = [], [False]  # one per open bracket, the innermost last
    line = 1
    for character in code:
        if character == "\n":
            line += 1
        elif character in "([{":
            open_ternary.append(False)
        elif character in ")]}":
            if len(open_ternary) > 1:
                open_ternary.pop()
            if character == "}":
                open_ternary[-1] = False
        elif character in ";,":
            open_ternary[-1] = False
        elif character == "?":
            if any(open_ternary):
                found.append(line)
            open_ternary[-1] = True
    return found
