#!/usr/bin/env python3
"""Makes the files of a release from a clean tree, and tries them: ./dev release; needs root.

usage: release.py [--only PART...] [--dry-run]

The parts: PARTS below, each by its verb of ./dev. Without --only all are made, then tried in
bare roots (test/release/try). With --only these are made anew, the others stay. A version that
is not that of a tagged commit is made only with --only or --dry-run. The archives have the date
of debian/changelog and no owner, so that they are the same bytes each time.
"""
import argparse
import datetime
import email.utils
import gzip
import hashlib
import io
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/dist"
OLDEST = "bookworm"  # the static command runs on it and all that is younger
TRIED = ("bookworm", "trixie")


def read(name):
    return (ROOT / name).read_text()


def run(*words, **more):
    return subprocess.run([*map(str, words)], cwd=ROOT, check=True, text=True, **more)


def output(*words):
    return run(*words, stdout=subprocess.PIPE).stdout.strip()


VERSION = output("src/version.py")
NUMBER = VERSION.split("-")[0]
OUT = ROOT / f"build/redlock-{VERSION}"
DATE = email.utils.parsedate_to_datetime(re.search(
    r"^ -- .*>  (.*)$", read("debian/changelog"), re.MULTILINE)[1]).astimezone(datetime.UTC)
MODULE = json.loads(read("contrib/node/package.json"))
PROGRAM = "redlock-quorum-linux-x64"  # contrib/node/index.js looks for it


def write_tar(name, files):
    """files: {path in it: (bytes, executable) or the target of a link}"""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.mtime = DATE.timestamp()
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                packed.addfile(member)
            else:
                member.size, member.mode = len(content[0]), 0o755 if content[1] else 0o644
                packed.addfile(member, io.BytesIO(content[0]))
    compress = lzma.compress if name.endswith("xz") else lambda all_: gzip.compress(all_, mtime=0)
    (OUT / name).write_bytes(compress(tar.getvalue()))


def files_of_tar(path):
    with tarfile.open(path) as tar:
        return {member.name: member.linkname if member.issym() else
                (tar.extractfile(member).read(), bool(member.mode & 0o100))
                for member in tar if not member.isdir()}


def files_of(folder, below, names=("**/*",)):
    return {f"{below}/{path.relative_to(folder)}": (path.read_bytes(), os.access(path, os.X_OK))
            for name in names for path in folder.glob(name) if path.is_file()}


def configure():
    if not (BUILD / "build.ninja").exists():
        run("meson", "setup", BUILD, "-Dtests=false", stdout=subprocess.DEVNULL)


def archive():
    configure()
    if pathlib.Path("/bare-debian").exists() and not (ROOT / ".git").exists():  # ./dev on
        run("git", "init", "--quiet", ".")
        run("git", "add", "-A")
        run("git", "-c", "user.name=all", "-c", "user.email=all", "commit", "--quiet", "-m", "all")
    run("meson", "dist", "-C", BUILD, "--no-tests", "--formats", "gztar",
        stdout=subprocess.DEVNULL)
    made = files_of_tar(BUILD / f"meson-dist/redlock-{VERSION}.tar.gz")
    write_tar(f"redlock-{VERSION}.tar.xz", made)


def packages():
    run("./dev", "package")
    for path in (ROOT / "build/package").iterdir():
        shutil.copy(path, OUT)


def wheel():
    run("./dev", "wheel")
    for path in (ROOT / "build/wheel").iterdir():
        if path.suffix == ".whl":
            shutil.copy(path, OUT)
            (OUT / f"{path.name}.packages").write_text(read("build/wheel/packages"))
        elif path.suffix == ".gz":
            write_tar(path.name, files_of_tar(path))


def static():
    """The static command, and the same as a package of npm."""
    folder = BUILD / "command"
    folder.mkdir(parents=True)
    with subprocess.Popen(["./dev", "on", OLDEST, "static", "--tar"], cwd=ROOT,
                          stdout=subprocess.PIPE) as built:
        run("tar", "-x", "-C", folder, stdin=built.stdout)
    if built.returncode:
        sys.exit("release: ./dev static failed")
    shutil.copy(ROOT / "LICENSE", folder / "licenses/redlock")
    name = f"redlock-{VERSION}-linux-x86_64"
    write_tar(f"{name}.tar.xz", files_of(folder, name))
    write_module(PROGRAM, {"description": "The command of redlock-quorum", "os": ["linux"],
                           "cpu": ["x64"]}, files_of(folder, "package"))


def write_module(name, members, files):
    package = {"name": name, "version": VERSION, "license": "MIT", **members}
    write_tar(f"{name}-{VERSION}.tgz", {
        **files, "package/package.json": ((json.dumps(package, indent=2) + "\n").encode(), False),
        "package/LICENSE": (read("LICENSE").encode(), False)})


def node():
    members = {**MODULE, "version": VERSION, "optionalDependencies": {PROGRAM: VERSION}}
    del members["scripts"], members["private"]
    write_module(MODULE["name"], members,
                 files_of(ROOT / "contrib/node", "package", MODULE["files"]))


def manual():
    configure()
    run("ninja", "-C", BUILD, "--quiet", "docs/man/redlock.1.html")
    name = f"redlock-{VERSION}-manual"
    write_tar(f"{name}.tar.xz", files_of(BUILD / "docs/man", name, ("*.html",)))


PARTS = (archive, packages, wheel, static, node, manual)


def check_changelog():
    wanted = f"## {NUMBER} - {DATE:%Y-%m-%d}" if VERSION == NUMBER else "## Unreleased"
    if f"\n{wanted}\n" not in read("CHANGELOG.md"):
        sys.exit(f"release: CHANGELOG.md lacks {wanted!r}")


def write_notes():
    section = re.search(r"^## .*?\n(?=## |\Z)", read("CHANGELOG.md"), re.MULTILINE | re.DOTALL)
    (OUT / "NOTES.md").write_text(section[0])


def write_sums():
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(OUT.iterdir()) if path.name != "SHA256SUMS"]
    (OUT / "SHA256SUMS").write_text("".join(sums))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--only", nargs="+", choices=[part.__name__ for part in PARTS])
    options.add_argument("--dry-run", action="store_true")
    options = options.parse_args()
    if (ROOT / ".git").exists() and output("git", "status", "--porcelain"):
        sys.exit("release: the tree is not clean")
    check_changelog()
    if VERSION != NUMBER and not (options.only or options.dry_run):
        sys.exit(f"release: {VERSION} is no release: tag v{NUMBER}, or give --dry-run")
    shutil.rmtree(BUILD, ignore_errors=True)  # what is configured there has its own version
    if not options.only:
        shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if not options.only or part.__name__ in options.only:
            print(f"release: {part.__name__}", flush=True)
            part()
    write_notes()
    run(sys.executable, ROOT / "test/release/sbom.py", OUT, VERSION, f"{DATE:%Y-%m-%dT%H:%M:%SZ}")
    write_sums()
    if not options.only:
        for release in TRIED:
            run("./dev", "on", "--with", OUT, release, "release", "--try")
    print((OUT / "SHA256SUMS").read_text() + f"""
{len(list(OUT.iterdir()))} files are in {OUT}. RELEASING.md goes on from here:
  git tag -s v{NUMBER} -m 'redlock {NUMBER}'   # before ./dev release
  gpg --armor --detach-sign {OUT}/SHA256SUMS""")


main()
