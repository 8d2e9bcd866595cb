#!/usr/bin/env python3
"""Tries a wheel and its sdist where nothing of libredlock is installed: wheel_try.py FOLDER

Only inside ./dev on. The examples run on five servers, by plain text and by TLS, whose CA is one
of the system. A second OpenSSL in the process, the system's, must not matter. The sdist names
what it lacks, and then is built and used.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/cli"))
folder, sys.argv = pathlib.Path(sys.argv[1]), sys.argv[:1]
import certificates  # noqa: E402
import lab  # noqa: E402

VENV = "/tmp/venv"
EXAMPLES = {"threads.py": "This runs while no other client holds the lock.\n" * 4,
            "tasks.py": "1000 locks are held.\n"}
HEADERS = ("libhiredis-dev", "libevent-dev", "libssl-dev")
# Its clients do not take a server of a busy machine for one that hangs. Python's ssl is in use.
PATIENTLY = """
import redlock_quorum, runpy, ssl, sys
ssl.create_default_context()
redlock_quorum.Options.__init__.__kwdefaults__["node_timeout"] = 5
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*words, code=0, **env):
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env={**os.environ, **env})
    lab.check(done.returncode == code, f"{words}: exit code {done.returncode}: {done.stdout}")
    return done.stdout


def install(*packages):
    run(ROOT / "test/debian/apt-get", "install", "-y", "--no-install-recommends", *packages)


def pip(file, **more):
    return run(f"{VENV}/bin/pip", "install", "--force-reinstall", file, **more)


def example(name, uris, **more):
    return run(f"{VENV}/bin/python", "-c", PATIENTLY, ROOT / "python/examples" / name, *uris,
               **more)


def examples(uris, **env):
    for name, shown in EXAMPLES.items():
        lab.equal(example(name, uris, **env), shown, name)


def calls_its_own():
    """With the names of the system's OpenSSL before those of the wheel's library."""
    said = run(f"{VENV}/bin/python", "-c", "import redlock_quorum", LD_DEBUG="bindings",
               LD_PRELOAD="libssl.so.3", LD_BIND_NOW="1")
    found = set(re.findall(r"redlock_quorum/libredlock\S+ \[0\] to \S*?([^/\s]+) \[0\]", said))
    lab.check("libc.so.6" in found and not re.search("ssl|crypto|event|hiredis", str(found)), found)


def trust(authority):
    pathlib.Path("/usr/local/share/ca-certificates/nodes.crt").write_text(
        pathlib.Path(authority.cert).read_text())
    run("update-ca-certificates")


def error_of(text):
    """The first one of meson."""
    return re.search(r"\d: ERROR: (.*)", text)[1]


def say(text):
    print(f"wheel: {text}", flush=True)


def play(quorum):
    authority = certificates.Authority("nodes")
    pair = authority.sign("server")
    ports = [certificates.serve(server, authority, pair, clients="no") for server in quorum.servers]
    by_tls = [f"rediss://127.0.0.1:{port}" for port in ports]
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    installed = run("dpkg-query", "-W", "-f", "${Package}\n")
    lab.check(not re.search("redlock|libevent|-dev$", installed, re.M), installed)
    run(sys.executable, "-m", "venv", VENV)
    pip(wheel)
    version = run(f"{VENV}/bin/python", "--version").strip()
    examples(quorum.uris)
    lab.check("unknown CA" in example("tasks.py", by_tls, code=1), "a CA that is unknown")
    examples(by_tls, SSL_CERT_FILE=authority.cert)
    trust(authority)
    examples(by_tls)
    examples(by_tls, LD_PRELOAD="libssl.so.3")
    calls_its_own()
    say(f"{wheel.name}: {wheel.stat().st_size} bytes, {version}")
    say(f"{sdist.name} without a compiler: {error_of(pip(sdist, code=1))}")
    install("gcc", "libc6-dev", "pkg-config")
    why = error_of(pip(sdist, code=1))
    for package in HEADERS:
        lab.check(package in why, why)
    say(f"{sdist.name} without headers: {why}")
    install(*HEADERS)
    pip(sdist)
    examples(by_tls)
    say(f"{sdist.name} with headers: built and used")


def main():
    with tempfile.TemporaryDirectory(prefix="rl-", dir="/tmp") as lab.folder, \
            lab.Quorum(5) as quorum:
        play(quorum)


main()
