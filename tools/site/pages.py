# SPDX-License-Identifier: Apache-2.0
"""Pages of the site that are generated when it is built: a page for each manual page of docs/man, from the same source as
`man` and --help, and the reference of liblull, from the comments of its header."""
import glob
import importlib.machinery
import importlib.util
import os
import re
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADER = os.path.join(SOURCE, "include/lull/lull.h")
PROGRAMS = ("src/cli/lull", "src/daemon/lulld", "lab/reproduce/lull-reproduce", "lab/lull-model", "lab/lull-sweep",
            "cluster/slurm/lull-schedule", "cluster/lull-budget", "cluster/lull-model-job", "cluster/lull-simulate-cluster")
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!-])")


def load(path):
    """A module from a file of tools/."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(os.path.basename(path).replace(".py", ""), os.path.join(SOURCE, path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


# ---- manual pages: scdoc to Markdown -----------------------------------------------------------

def literal(text):
    """Text without a meaning in Markdown."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def linked(text, manuals):
    """Names of manual pages and of documents become links."""
    def manual(match):
        page = f"{match[1]}.{match[2]}"
        return f"[{match[1]}({match[2]})]({page}.md)" if page in manuals else f"**{match[1]}**({match[2]})"
    text = re.sub(r"\*\*([\w.\\-]+)\*\*\\\((\d)\\\)", lambda match: manual([None, match[1].replace("\\", ""), match[2]]), text)
    return re.sub(r"\bdocs/([\w/\\-]+)\.md", lambda match: f"[docs/{match[1]}.md](../../{match[1]}.md)".replace("\\", ""), text)


def inline(text, manuals):
    """One paragraph: *bold*, _italic_ and backslashes of scdoc."""
    result, at, strong, emphasis = "", 0, False, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            result += literal(text[at + 1])
            at += 1
        elif char == "*":
            strong = not strong
            result += "**"
        elif char == "_" and (emphasis or at == 0 or not text[at - 1].isalnum()):
            emphasis = not emphasis
            result += "<em>" if emphasis else "</em>"
        else:
            result += literal(char)
        at += 1
    return linked(result.replace("\\+\\+\n", "<br>\n"), manuals)


def blocks(text):
    """The blocks of a page between blank lines; a fenced one is whole."""
    for part in re.split(r"(^```\n.*?^```$)", text, flags=re.S | re.M):
        if part.startswith("```"):
            yield part
        else:
            yield from (block.strip("\n") for block in re.split(r"\n\s*\n", part) if block.strip())


def title(heading):
    """A heading of a manual page is in capitals."""
    return heading.capitalize() if heading.isupper() else heading


def page_of_manual(text, manuals):
    """Markdown of a manual page, after its options have been filled in."""
    name = re.match(r"(\S+)\((\d)\)", text)
    lines = [f"# {name[1]}({name[2]})", ""]
    is_example = False
    for block in blocks(text.split("\n", 1)[1]):
        first, *rest = block.split("\n")
        heading = re.match(r"(#+) (.*)", first)
        if heading:
            is_example = heading[2].startswith("EXAMPLE")
            if heading[2] != "NAME":
                lines += [f"{heading[1]}# {inline(title(heading[2].replace('`', '')), ())}", ""]
            first, *rest = rest or [""]
        if first.startswith("```"):
            lines += [block, ""]
        elif first.startswith("\t") and is_example:
            lines += ["```", *(line.lstrip("\t") for line in [first, *rest]), "```", ""]
        elif first.startswith("\t"):
            lines += ["    " + inline(" ".join(line.strip() for line in [first, *rest]), manuals), ""]
        elif rest and rest[0].startswith("\t"):
            lines += [inline(first, manuals), ":   " + inline(" ".join(line.strip() for line in rest), manuals), ""]
        elif first.startswith("- "):
            lines += [re.sub(r"^\\-", "-", inline(block, manuals), flags=re.M), ""]
        elif first:
            lines += [inline("\n".join([first, *rest]), manuals), ""]
    return "\n".join(lines)


def list_manuals():
    """The names of all manual pages and their files: "lull-run.1"."""
    found = {os.path.basename(path)[:-4]: path for path in glob.glob(SOURCE + "/docs/man/**/*.scd", recursive=True)}
    return dict(sorted(found.items(), key=lambda item: (item[0].split(".")[-1], item[0].split(".")[0])))


def make_manuals(build):
    """Generated pages: the path in docs/ and the text."""
    options, manuals = load("tools/options"), list_manuals()
    programs = options.merge([os.path.join(build, path) for path in PROGRAMS if os.path.exists(os.path.join(build, path))])
    for name, path in manuals.items():
        yield f"reference/commands/{name}.md", page_of_manual(options.manual(path, programs), manuals)
    api = load("tools/c_api.py")
    yield "reference/commands/liblull.3.md", page_of_manual(api.manual(HEADER), manuals)


# ---- liblull ------------------------------------------------------------------------------------

def page_of_header():
    head, items = load("tools/c_api.py").read(HEADER)
    lines = ["# C API: lull.h", "", "This page describes each function of liblull. Include `<lull/lull.h>` and link with `-llull`.", "",
             *(text + "\n" for text in head[1:])]
    for item in items:
        if item.title:
            lines += ["## " + item.title.capitalize(), ""]
        if item.functions:
            lines += ["### " + ", ".join(f"`{name}`" for name in item.functions), ""]
        if item.code:
            lines += ["```c", item.code, "```", ""]
        lines += [text + "\n" for text in item.text]
    return "\n".join(lines)


def make_all(build):
    yield from make_manuals(build)
    yield "reference/c-api.md", page_of_header()
    yield "reference/python-api.md", (
        "# Python API\n\nThis page lists the functions and classes of the package `lull`. [Python](../user/python.md) has examples.\n\n"
        + "".join(f"## {name}\n\n::: {name}\n\n" for name in ("lull", "lull.batch", "lull.callbacks", "lull.zeus", "lull.documents")))
