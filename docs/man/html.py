#!/usr/bin/env python3
"""The man pages as HTML, with links to each other.

usage: html.py MANDOC FOLDER PAGE...
"""
import pathlib
import re
import subprocess
import sys


def names_of(page):
    """All names under NAME: `redlock_cancel` is on the page redlock_acquire.3."""
    text = re.split(r"\.SH NAME\n(?:\.PP?\n)?", page.read_text())[1]
    return text.replace("\\&", "").replace("\n", " ").split(" - ")[0].split(", ")


def main(mandoc, folder, *files):
    pages = [pathlib.Path(file) for file in files]
    targets = {f"{name}({page.suffix[1:]})": page.name + ".html"
               for page in pages for name in names_of(page)}

    def link(match):
        target = targets.get(f"{match[1]}({match[2]})")
        return f'<a href="{target}">{match[0]}</a>' if target else match[0]

    for page in pages:
        html = subprocess.run([mandoc, "-T", "html", page], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        html = re.sub(r"<b>([\w.-]+)</b>\((\d)\)", link, html)
        (pathlib.Path(folder) / (page.name + ".html")).write_text(html)


main(*sys.argv[1:])
