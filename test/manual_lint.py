#!/usr/bin/env python3
"""mandoc finds nothing wrong with the man pages of a build, nor with their links.

usage: manual_lint.py FOLDER

FOLDER has the pages that meson built. Skipped where it has none, or there is no mandoc.
"""
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
# What mandoc says about the form of everything that scdoc writes (1.11.2 to 1.11.5), not
# about what a page has: it puts .P where mandoc needs none, does not wrap the lines of the
# source, a title is the name of the page as it is, and 1.11.5 escapes the hyphens of a date.
OF_SCDOC = ("WARNING: skipping paragraph macro: PP",
            "STYLE: input text line longer than 80 bytes",
            "STYLE: lower case character in document title",
            "WARNING: cannot parse date, using it verbatim: TH 20")
LINK = re.compile(r"\.so (man\d/[\w.-]+)\n")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def complaints(mandoc, page):
    said = subprocess.run([mandoc, "-T", "lint", "-W", "all", page], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    return [line for line in said.splitlines() if not any(form in line for form in OF_SCDOC)]


def main(folder):
    mandoc = shutil.which("mandoc")
    files = [file for file in sorted(pathlib.Path(folder).iterdir())
             if re.fullmatch(r"\.\d", file.suffix)]
    pages = [file for file in files if not LINK.fullmatch(file.read_text())]
    if not pages:
        skip("the man pages are not built: there is no scdoc")
    if not mandoc:
        skip("there is no mandoc")
    wrong = [line for page in pages for line in complaints(mandoc, page)]
    for link in set(files) - set(pages):
        target = pathlib.Path(folder) / LINK.fullmatch(link.read_text())[1].partition("/")[2]
        if target not in pages:
            wrong.append(f"{link}: there is no {target}")
    index = pathlib.Path(folder, "index.html")  # by mandoc, too
    listed = re.findall(r'href="(.*)\.html"', index.read_text()) if index.exists() else []
    wrong += [f"index.html does not list {page.name}" for page in pages
              if index.exists() and page.name not in listed]
    print("\n".join(wrong) or f"{len(pages)} pages, {len(files) - len(pages)} links")
    sys.exit(len(wrong) > 0)


main(sys.argv[1])
