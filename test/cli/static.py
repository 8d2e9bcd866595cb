#!/usr/bin/env python3
"""The static command (./dev static): alone in a root, with TLS, and in each case of resolving.py.

usage: static.py FILE    A command that was built with -Dprefer_static=true.
"""
import os
import shutil
import subprocess

import lab
import resolving
from lab import case, check, equal, redlock
from redis_server import need_tls

# A shared object that no process survives.
PLANTED = "__attribute__((constructor)) static void die(void) { __builtin_trap(); }"


def output(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=lab.END_SECONDS, check=False)
    equal(done.returncode, 0, f"the exit code of {words}: {done.stdout}")
    return done.stdout


@case("no interpreter and no library is needed, and the version is this tree's")
def _(_quorum):
    headers = output("readelf", "--wide", "--program-headers", "--dynamic", lab.program)
    check("INTERP" not in headers and "NEEDED" not in headers, headers)
    version = os.path.join(os.path.dirname(__file__), "../../src/version.py")
    redlock("--version").expect(0, out=f"redlock {output(version)}")


def plant(folder, name):
    source, planted = lab.write(lab.temporary("planted.c"), PLANTED), os.path.join(folder, name)
    output("gcc", "-shared", "-fPIC", "-nostdlib", "-o", planted, source)
    return planted


def lock_locally(*options, **env):
    redlock("local", "-n", "3", *options, "--", "env", *(f"{name}={env[name]}" for name in env),
            lab.program, "run", *lab.PATIENT, "-n", "k", "echo", "held").expect(0, out="held\n")


@case("a lock on private servers")
def _(_quorum):
    lock_locally()


@case("a lock by TLS, with the CA that `local` makes; a module of openssl.cnf is not loaded")
def _(_quorum):
    need_tls()
    config = lab.temporary("openssl.cnf")
    module = plant(os.path.dirname(config), "planted.so")
    lab.write(config, "openssl_conf = all\n[all]\nproviders = some\n[some]\nplanted = one\n"
                      f"[one]\nmodule = {module}\nactivate = 1\n")
    lock_locally("--tls", OPENSSL_CONF=config)


def make_root():
    """Only the command, the files of the resolver, and a name service that must not be loaded."""
    root = os.path.dirname(lab.temporary("x"))
    for folder in ("etc", "lib"):
        os.mkdir(os.path.join(root, folder))
    shutil.copy(lab.program, root)
    plant(f"{root}/lib", "libnss_planted.so.2")
    lab.write(f"{root}/etc/hosts", "127.0.0.1 listed.test\n")
    lab.write(f"{root}/etc/resolv.conf", "nameserver 127.0.0.1\n")
    return root


@case("names of /etc/hosts and of DNS, in a root without glibc, with and without nsswitch.conf")
def _(quorum):
    root, port = make_root(), quorum[0].listen()
    known = resolving.addresses("127.0.0.1")
    with resolving.NameServer(lambda question: known(question) if b"node" in question else
                              resolving.reply(question, resolving.NXDOMAIN)):
        for services in (None, "files dns", "planted files dns"):
            if services:
                lab.write(f"{root}/etc/nsswitch.conf", f"hosts: {services}\n")
            for name in ("listed.test", "node.test"):
                output("chroot", root, "/redlock", "acquire", "-w", "20s", *lab.PATIENT, "--nodes",
                       f"redis://{name}:{port}", f"{name} {services}")


resolving.main()
