#!/usr/bin/env python3
"""The man pages as HTML, with links to each other, and index.html, which lists them.

usage: html.py MANDOC FOLDER PAGE...
"""
import pathlib
import re
import subprocess
import sys
from xml.sax.saxutils import escape


SECTIONS = {"1": "Commands", "3": "The library", "5": "Files", "7": "What a lock promises"}


def name_of(page):
    """All names under NAME, `redlock_cancel` is on the page redlock_acquire.3, and what it is."""
    text = re.split(r"\.SH NAME\n(?:\.PP?\n)?", page.read_text())[1].split("\n.")[0]
    names, about = text.replace("\\&", "").replace("\n", " ").split(" - ", 1)
    return names.split(", "), about.strip()


def index(pages):
    yield "<!DOCTYPE html>\n<meta charset=utf-8>\n<title>Manual of redlock</title>\n"
    yield "<h1>Manual of redlock</h1>\n"
    for number, title in SECTIONS.items():
        yield f"<h2>{title}</h2>\n<dl>\n"
        for page in pages:
            if page.suffix == "." + number:
                names, about = name_of(page)
                yield (f'<dt><a href="{page.name}.html">{", ".join(names)}</a>({number})\n'
                       f"<dd>{escape(about)}\n")
        yield "</dl>\n"


def main(mandoc, folder, *files):
    pages = [pathlib.Path(file) for file in files]
    targets = {f"{name}({page.suffix[1:]})": page.name + ".html"
               for page in pages for name in name_of(page)[0]}

    def link(match):
        target = targets.get(f"{match[1]}({match[2]})")
        return f'<a href="{target}">{match[0]}</a>' if target else match[0]

    for page in pages:
        html = subprocess.run([mandoc, "-T", "html", page], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        html = re.sub(r"<b>([\w.-]+)</b>\((\d)\)", link, html)
        (pathlib.Path(folder) / (page.name + ".html")).write_text(html)
    (pathlib.Path(folder) / "index.html").write_text("".join(index(pages)))


main(*sys.argv[1:])
