# SPDX-License-Identifier: Apache-2.0
"""Hooks of mkdocs: generated pages, links to files outside docs/, and llms.txt. mkdocs.yml names this file."""
import os
import re
import sys

from mkdocs.structure.files import File, InclusionLevel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pages  # noqa: E402

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
BUILD = os.environ.get("LULL_SITE_BUILD", "build")
IS_INCOMPLETE = "LULL_SITE_INCOMPLETE" in os.environ
generated = {}


def expand(entry, docs):
    """The pages that a placeholder of the nav stands for."""
    if entry == "@commands":
        return sorted((path for path in generated if path.startswith("reference/commands/")), key=lambda path: path.replace("-", "~"))
    if isinstance(entry, str) and entry.endswith("/*"):
        folder = entry[:-1]
        return sorted(folder + name for name in os.listdir(os.path.join(docs, folder)) if name.endswith(".md") and name != "index.md")
    return [entry]


def is_there(entry, docs):
    path = entry if isinstance(entry, str) else next(iter(entry.values()))
    return path in generated or os.path.exists(os.path.join(docs, path))


def fill(nav, docs):
    """The nav with its placeholders replaced. A page that is missing is left out of an incomplete site only."""
    filled = []
    for entry in nav:
        if isinstance(entry, dict) and isinstance(next(iter(entry.values())), list):
            filled += [{name: fill(inner, docs)} for name, inner in entry.items()]
            continue
        for page in expand(entry, docs):
            if not is_there(page, docs) and IS_INCOMPLETE:
                print(f"make-site: left out, because it does not exist yet: {page}", file=sys.stderr)
                continue
            name = re.fullmatch(r"reference/commands/(.*)\.(\d)\.md", page) if isinstance(page, str) else None
            filled.append({f"{name[1]}({name[2]})": page} if name else page)
    return filled


def on_config(config):
    generated.update(pages.make_all(BUILD))
    config.nav = fill(config.nav, config.docs_dir)
    return config


def on_files(files, config):
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    with open(os.path.join(pages.SOURCE, "llms.txt"), encoding="utf-8") as file:
        text = re.sub(r"\]\(docs/([^)#]*)\.md", r"](\1.html", file.read())
    files.append(File.generated(config, "llms.txt", content=text, inclusion=InclusionLevel.INCLUDED))
    return files


def rewrite(match, page):
    """A link to a manual page leads to its page; one to a file outside docs/ becomes text, since the site has no such file."""
    text, target = match.groups()
    path = target.partition("#")[0]
    if re.match(r"[a-z]+:", target) or not path:
        return match[0]
    place = os.path.normpath(os.path.join("docs", os.path.dirname(page), path))
    manual = re.fullmatch(r"docs/man/(?:.*/)?([^/]*)\.scd", place)
    if manual:
        return f"[{text}]({os.path.relpath('reference/commands', os.path.dirname(page) or '.')}/{manual[1]}.md)"
    if place.startswith("docs/"):
        return match[0]
    plain = text.strip("`")
    if plain in (place, os.path.basename(place), path):
        return f"`{place}`"
    return f"{text} (`{place}` in the source)"


def link_manuals(text, page):
    """Names of manual pages become links, unless they are in a link or in code."""
    def link(match):
        path = f"reference/commands/{match[1]}.{match[2]}.md"
        return f"[{match[0]}]({os.path.relpath(path, os.path.dirname(page) or '.')})" if path in generated else match[0]
    return re.sub(r"(?<![\w`\[/.-])((?:lib)?lull[\w.-]*)\((\d)\)(?![\]`])", link, text)


def indent_lists(markdown):
    """Continuations of list items, with the 4 columns per level that Python-Markdown requires. GitHub requires those of the marker."""
    lines, levels, is_fenced = [], [], False
    for line in markdown.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        while levels and line.strip() and not is_fenced and indent < levels[-1]:
            levels.pop()
        begin = levels[-1] if levels else 0
        rest = line[min(begin, indent):]
        lines.append("    " * len(levels) + rest if rest else "")
        if rest.lstrip(" ").startswith("```"):
            is_fenced = not is_fenced
        marker = re.match(r" {0,3}(?:[-*+]|\d+\.) {1,3}(?=\S)", rest)
        if marker and not is_fenced:
            levels.append(begin + len(marker[0]))
    return "\n".join(lines)


def on_page_markdown(markdown, page, **_):
    source = page.file.src_uri
    if source == "index.md":
        page.meta["hide"] = ["navigation"]
    if source in generated:
        return markdown
    parts = re.split(r"(^ *```.*?^ *```$)", indent_lists(markdown), flags=re.S | re.M)
    parts[::2] = [link_manuals(LINK.sub(lambda match: rewrite(match, source), part), source) for part in parts[::2]]
    return "".join(parts)


def on_post_page(output, **_):
    """Adds what the theme lacks for screen readers and keyboards: a name of the search, and focus for code and tables that scroll. Roles of
    Sphinx in docstrings are markup of another tool."""
    output = output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"')
    output = re.sub(r":(?:func|mod|class|meth|attr):(?=<code>)", "", output)
    output = output.replace("<table>", '<table tabindex="0">')
    return re.sub(r"(<pre[^>]*>(?:<span></span>)?<code)(?=[ >])", r'\1 tabindex="0"', output)
