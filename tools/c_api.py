#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of liblull, from the comments of include/lull/lull.h.

  tools/c_api.py manual HEADER       the manual page liblull(3), for scdoc
  tools/c_api.py functions HEADER    the names of the functions, one per line

The header has groups, "/* ---- title ---- */". A comment describes the declarations that follow it up to the next blank line.
tools/site/pages.py makes the page of the site from the same parts.
"""
import collections
import re
import sys

Item = collections.namedtuple("Item", "title text code functions")
PART = re.compile(r"/\* -{4} (?P<group>.*?) -{4} \*/|/\*(?P<comment>.*?)\*/\n(?P<after>(?:[^\n/#][^\n]*\n)*)|(?P<code>^(?:enum|struct).*?^};\n)",
                  re.S | re.M)


def clean(comment):
    """The paragraphs of a comment, each on one line."""
    lines = [re.sub(r"^ ?\* ?", "", line.strip()) for line in comment.strip().splitlines()]
    paragraphs = [" ".join(lines.split("\n")) for lines in "\n".join(lines).split("\n\n")]
    return [text.strip() for text in paragraphs if text.strip() and not text.startswith("SPDX")]


def read(path):
    """The paragraphs at the head of a header, and its items in their order. An item with a title begins a group."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    head = clean(re.match(r"/\*(.*?)\*/", text, re.S)[1])
    body = text[text.index('extern "C"'):text.rindex("#ifdef __cplusplus")]
    items = []
    for part in PART.finditer(body):
        code = (part["code"] or part["after"] or "").replace("LULL_API ", "").rstrip()
        if part["group"]:
            items.append(Item(part["group"], [], "", []))
        elif code:
            items.append(Item("", clean(part["comment"] or ""), code, re.findall(r"\b(lull_\w+)\(", code)))
    return head, items


def list_functions(items):
    return [name for item in items for name in item.functions]


def escape(text):
    return re.sub(r"`([^`]*)`", r"*\1*", re.sub(r"([\\_*])", r"\\\1", text))


def manual(path):
    head, items = read(path)
    names = list_functions(items)
    lines = ["liblull(3)", "", "# NAME", "", "liblull - marks of a program's sections and steps, and energy windows", "", "# SYNOPSIS", "",
             "*#include <lull/lull.h>*", "", "Link with *-llull* (*pkg-config --libs liblull*).", "", "# DESCRIPTION", ""]
    for text in head[1:]:
        lines += [escape(text), ""]
    for item in items:
        if item.title:
            lines += ["# " + escape(item.title).upper(), ""]
        if item.code:
            lines += ["```", item.code, "```", ""]
        for text in item.text:
            lines += [escape(text), ""]
    lines += ["# FUNCTIONS", "", ", ".join(f"*{escape(name)}*" for name in names), "", "# SEE ALSO", "", "*lull*(1), *lull-run*(1), *lull-meter*(1)"]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1] == "manual":
        print(manual(sys.argv[2]))
    else:
        print("\n".join(list_functions(read(sys.argv[2])[1])))
