#!/usr/bin/env python3
"""./dev check lint: clang-tidy, shellcheck and luacheck find nothing.

usage: lint.py BUILD    with compile_commands.json, made for clang

clang-tidy (.clang-tidy has its checks) reads each file of src/ once, with the headers that it
includes; shellcheck each script of sh and bash; luacheck the scripts as they go over the wire.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "lua"))
import embed  # noqa: E402
import variables  # noqa: E402

SHELL = re.compile(rb"#!.*\b(ba)?sh\b")
# Parts are spliced into the scripts: they declare names again, and set some that only other
# scripts read. lua/variables.py knows which of them are mistakes.
SPLICED = ("4", "211", "241", "311")
LUACHECK = ("luacheck", "--no-color", "--codes", "--std", "lua51", "--read-globals", "redis",
            "cjson", "KEYS", "ARGV", "--ignore", *SPLICED, "--no-max-line-length")


def files():
    """Those of the tree; an unpacked archive has no git."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 0:
        return [ROOT / os.fsdecode(name) for name in done.stdout.split(b"\0") if name]
    return [path for path in ROOT.rglob("*") if "build" not in path.relative_to(ROOT).parts]


def is_shell(path):
    if not path.is_file():
        return False
    with open(path, "rb") as text:
        return bool(SHELL.match(text.readline()))


def c_sources(build, folder):
    """Those of src/. Many are compiled more than once: `folder` gets the first command of each."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if path.is_relative_to(ROOT / "src"):
            commands.setdefault(path, entry)
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    return sorted(commands)


def run(command, text=None):
    """What the command says if it fails."""
    done = subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout if done.returncode != 0 else ""


def main(build):
    commands = build / "lint"
    sources = c_sources(build, commands)
    shell = sorted(filter(is_shell, files()))
    lua = [path for path in sorted((ROOT / "lua").glob("*.lua")) if not variables.is_part(path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(run, ["clang-tidy", "--quiet", "-p", str(commands), str(path)])
                for path in sources]
        jobs += [pool.submit(run, [*LUACHECK, "--filename", str(path.relative_to(ROOT)), "-"],
                             embed.body(path) + "\n") for path in lua]
        jobs.append(pool.submit(run, ["shellcheck", "-S", "warning", *map(str, shell)]))
        wrong = 0
        for job in concurrent.futures.as_completed(jobs):
            wrong += bool(job.result())
            print(job.result(), end="", flush=True)
    print(f"{len(sources)} sources, {len(shell)} shell scripts, {len(lua)} Lua scripts: "
          f"{wrong} have warnings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
