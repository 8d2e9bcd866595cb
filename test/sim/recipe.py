"""How the simulator is made, as meson has written it down: for who makes another one.

A build directory names in compile_commands.json what `sim` consists of, and the command for
each object. The objects themselves are there, too, and can be linked again.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess

PARTS = tuple(f"test/sim/{name}.p/" for name in
              ("sim", "libsim_product.a", "libsim_virtual.a", "libsim_redis.a"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
CORES = len(os.sched_getaffinity(0))


class Unit:
    """One source, its object in the build directory, and how that was compiled."""

    def __init__(self, entry):
        self.folder = pathlib.Path(entry["directory"])
        self.source = (self.folder / entry["file"]).resolve()
        self.object = self.folder / entry["output"]
        words = shlex.split(entry["command"])
        self.compiler = [words[0]]
        while words[len(self.compiler)][0] != "-":  # ccache gcc
            self.compiler.append(words[len(self.compiler)])
        self.flags = list(flags_of(words[len(self.compiler):]))

    def compile(self, source, target, compiler=None, flags=None, first=()):
        """`source` is this unit's or a copy that includes what the original would, but for what
        is in the folders `first`."""
        folders = [word for folder in (*first, self.source.parent) for word in ("-iquote", folder)]
        run([*(compiler or self.compiler), *folders,
             *(self.flags if flags is None else flags), "-o", target, "-c", source], self.folder)


def flags_of(words):
    """What is not about this object alone."""
    words = iter(words)
    for word in words:
        if word in ("-o", "-c", "-MQ", "-MF"):
            next(words)
        elif word != "-MD":
            yield word


def units(build):
    build = pathlib.Path(build)
    entries = json.loads((build / "compile_commands.json").read_text())
    found = [Unit(entry) for entry in entries if entry["output"].startswith(PARTS)]
    for part in PARTS:
        if not any(entry["output"].startswith(part) for entry in entries):
            raise SystemExit(f"{build} does not say how to make {part}")
    return found


def run(words, folder):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, words))}\n{done.stderr}")


def libraries(build):
    """What `sim` is linked with besides its objects."""
    lines = (pathlib.Path(build) / "build.ninja").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("build test/sim/sim:"))
    words = next(line for line in lines[begin:] if line.startswith(" LINK_ARGS")).split()
    return [word for word in words if word.endswith(".so") or word.startswith("-l")]


def link(compiler, flags, objects, target, build):
    chosen = [flag for flag in flags if flag.startswith(("-fsanitize", "-m", "-O", "--coverage"))]
    run([*compiler, *chosen, *objects, "-o", target, *libraries(build)], ROOT)


def side_by_side(function, items):
    """The results of function(item), in order; as many at once as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        try:
            yield from pool.map(function, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
