"""The types, the examples, the pages, and the wheel and the sdist."""
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import redlock_quorum

PYTHON = pathlib.Path(__file__).resolve().parents[1]
ROOT = PYTHON.parent
MYPY = shutil.which("mypy")
BACKEND = importlib.util.find_spec("mesonpy") and not importlib.metadata.version(
    "meson-python").startswith("0.12.")
DEFAULTS = redlock_quorum.Options.__init__.__kwdefaults__

# Runs a program whose clients do not take a server of a busy machine for one that hangs.
PATIENTLY = """
import redlock_quorum, runpy, sys
redlock_quorum.Options.__init__.__kwdefaults__["node_timeout"] = 5
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*words, **more):
    done = subprocess.run([*map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.skipif(not MYPY, reason="mypy is not installed")
def test_types(tmp_path):
    examples = [path for path in sorted(PYTHON.glob("examples/*.py"))
                if path.name != "tracing.py" or importlib.util.find_spec("opentelemetry")]
    run(MYPY, "--strict", "--python-version", "3.11", "--cache-dir", tmp_path, "redlock_quorum",
        *examples, "tests/typed.py", cwd=PYTHON)


@pytest.mark.parametrize("name, shown", [
    ("threads.py", "This runs while no other client holds the lock.\n" * 4),
    ("tasks.py", "1000 locks are held.\n"),
])
def test_examples(quorum, name, shown):
    assert run(sys.executable, "-c", PATIENTLY, f"examples/{name}", *quorum.uris, cwd=PYTHON,
               env={**os.environ, "PYTHONPATH": str(PYTHON)}) == shown


def test_the_readme(quorum, monkeypatch):
    """Each block of Python in README.md runs, with the nodes of REDLOCK_NODES."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (PYTHON / "README.md").read_text(),
                        re.M | re.S)
    assert blocks
    monkeypatch.setitem(DEFAULTS, "node_timeout", 5)
    for block in blocks:
        exec(compile(block.replace('["redis://a", "redis://b", "redis://c"]',
                                   repr(quorum.uris)), "README.md", "exec"), {})


def test_the_build_names_each_file():
    named = set(re.findall(r"redlock_quorum/[\w.]+", (PYTHON / "meson.build").read_text()))
    assert named == {f"redlock_quorum/{path.name}"
                     for path in (PYTHON / "redlock_quorum").iterdir() if path.is_file()}


# Builds by the backend alone: no network, no isolation.
BUILD = "import mesonpy, sys; print(mesonpy.build_{}(sys.argv[1]))"
USE = """
import sys, redlock_quorum
assert redlock_quorum.__file__.startswith(sys.prefix), redlock_quorum.__file__
assert redlock_quorum.__version__ == redlock_quorum.library_version().replace("-dev", ".dev0")
with redlock_quorum.Client(sys.argv[1:], redlock_quorum.Options(node_timeout=5)) as client:
    with client.lock("wheel") as hold:
        print(hold.valid() > 0)
"""


@pytest.mark.skipif(not BACKEND, reason="there is no mesonpy, or it is that of Debian 12")
def test_wheel_and_sdist(quorum, tmp_path):
    tree, out = tmp_path / "tree", tmp_path / "out"
    out.mkdir()
    shutil.copytree(ROOT, tree, symlinks=True,
                    ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
    (tree / ".tarball-version").write_text(run(ROOT / "src/version.py"))
    if shutil.which("git"):  # of which meson makes the sdist
        for words in (["init", "-q"], ["add", "-A"],
                      ["-c", "user.name=test", "-c", "user.email=test", "commit", "-qm", "all"]):
            run("git", *words, cwd=tree)
        run(sys.executable, "-c", BUILD.format("sdist"), out, cwd=tree)
        [archive] = out.glob("*.tar.gz")
        tree = tmp_path / "unpacked"
        shutil.unpack_archive(archive, tree)
        [tree] = tree.iterdir()
    run(sys.executable, "-c", BUILD.format("wheel"), out, cwd=tree)
    [wheel] = out.glob(f"redlock_quorum-{redlock_quorum.__version__}-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    [packages] = tmp_path.glob("venv/lib/*/site-packages")
    if importlib.util.find_spec("pip"):
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    else:
        shutil.unpack_archive(wheel, packages, "zip")  # what pip does with such a wheel
    assert run(python, "-c", USE, *quorum.uris, cwd=tmp_path,
               env={**os.environ, "REDLOCK_LIBRARY": ""}) == "True\n"


@pytest.mark.skipif(not shutil.which("meson"), reason="there is no meson")
def test_the_build_names_what_is_missing(tmp_path):
    done = subprocess.run(["meson", "setup", tmp_path, ROOT, "-Dtls=enabled"], text=True,
                          stdout=subprocess.PIPE, check=False,
                          env={**os.environ, "PKG_CONFIG_LIBDIR": str(tmp_path)})
    assert done.returncode == 1
    assert re.search(r"ERROR: .*missing: .*libhiredis-dev.* \(Debian's names\)", done.stdout)
