#!/usr/bin/env python3
"""rediss://: right and wrong certificates, files that are replaced, sessions, long replies."""
import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading

import lab
from certificates import Authority, Nodes, old_dates, openssl, patient, replace
from monitoring import Monitor
from lab import WrongClock, case, check, equal, finish, matches, redlock, start


@contextlib.contextmanager
def plain_text(reply):
    """A server that replies at once, and in plain text; its URI by TLS."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as peer:
                    peer.sendall(reply)
                    peer.recv(65536)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"rediss://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def refused(code, why, env, *words):
    """A lock is refused, by one line that says why."""
    outcome = redlock("run", "-w", "10s", *words, "k", "true", env=env).expect(code, err=why)
    equal(outcome.err.count(why), 1, f"lines with the reason in {outcome}")


@case("a name, an address, and each command")
def _(quorum):
    nodes = Nodes(quorum)
    for host in ("127.0.0.1", "localhost"):
        redlock("run", "k", "true", env=nodes.env(host)).expect(0)
    env = nodes.env()
    redlock("admit", "--new", "--at-once", env=env).expect(0)
    redlock("run", "--fence", "k", "true", env=env).expect(0)
    token = redlock("acquire", "k", env=env).expect(0).out.strip()
    check("rediss://127.0.0.1:" in redlock("status", "k", env=env).expect(0).out, "no URI")
    waiter = start("run", "k", "true", env=env)
    lab.wait_for(lambda: all(server.call("EXISTS", "k!queue") for server in quorum.servers),
                 "a waiter")
    redlock("release", "k", env={**env, "REDLOCK_TOKEN": token}).expect(0)
    finish(waiter).expect(0)
    redlock("run", "k", "--", lab.program, "run", "inner", "--", "true", env=env).expect(0)
    redlock("check", "--json", env=env)


def warned(env):
    """{code of a finding: its detail} of `redlock check`, of certificates."""
    found = redlock("check", "--json", env=env).json()["nodes"]
    return {one["code"]: one["detail"] for node in found for one in node["findings"]
            if "certificate" in one["code"]}, [node["certificate_ms"] for node in found]


@case("check warns of a certificate that ends within 14 days, the monitor has its time")
def _(quorum):
    def days(left):
        return left / 86400000
    nodes = Nodes(quorum)
    found, left = warned(nodes.env())
    equal(found, {}, "30 days")
    check(all(29 < days(one) <= 30 for one in left), f"{left}")
    soon = Nodes(quorum, dates=("-days", "13"))
    found, left = warned(soon.env())
    equal(set(found), {"certificate_ends"}, "13 days")
    matches(found["certificate_ends"], r"^in 1[23]\.\d days$", "detail")
    check(all(12 < days(one) <= 13 for one in left), f"{left}")
    cert, key = soon.authority.sign("other", dates=("-days", "3"))
    found, _ = warned(soon.env(REDLOCK_CERT=cert, REDLOCK_CERT_KEY=key))
    equal(set(found), {"certificate_ends", "client_certificate_ends"}, "ours, too")
    matches(found["client_certificate_ends"], r"^in [23]\.\d days$", "detail")
    equal(warned(lab.on(quorum)), ({}, [None] * len(quorum.uris)), "without TLS")
    with Monitor(quorum, **soon.env()) as monitor:
        left = lab.wait_for(lambda: monitor.metrics("redlock_node_certificate_left_seconds"), "a metric")
        check(all(12 < one / 86400 <= 13 for one in left.values()), f"{left}")
        check(any("certificate_ends" in one for one in monitor.metrics("redlock_node_finding")), "a finding")


@case("--tls, the options, the configuration file")
def _(quorum):
    nodes = Nodes(quorum)
    uris = nodes.env()["REDLOCK_NODES"].replace("rediss", "redis")
    cert, key = nodes.client
    words = ["--tls", "--cacert", nodes.authority.cert, "--cert", cert, "--key", key]
    redlock("run", "-N", uris, *words, "k", "true", env=patient()).expect(0)
    path = lab.write(lab.temporary("conf"), f"nodes = {uris}\ntls = yes\ncert = {cert}\n"
                     f"key = {key}\ninsecure = yes\ntimeout = {lab.PATIENCE}\n")
    redlock("run", "--config", path, "k", "true").expect(0)
    both = lab.write(lab.temporary("both"), lab.read(cert) + lab.read(key))
    redlock("run", "-N", uris, "--tls", "--cacert", nodes.authority.cert, "--cert", both, "k",
            "true", env=patient()).expect(0)
    folder = os.path.dirname(lab.temporary("x"))
    shutil.copy(nodes.authority.cert, os.path.join(folder, "ca.pem"))
    subprocess.run(["openssl", "rehash", folder], check=True)
    redlock("run", "--cacertdir", folder, "k", "true", env=nodes.env(REDLOCK_CACERT="")).expect(0)


@case("redlock is killed: its keeper releases the lock, by the files of the command line")
def _(quorum):
    nodes, path = Nodes(quorum), lab.temporary("beats")
    cert, key = nodes.client
    process = start("run", "-N", nodes.env()["REDLOCK_NODES"], "--cacert", nodes.authority.cert,
                    "--cert", cert, "--key", key, "-t", "20m", "k", *lab.beat(path), env=patient())
    lab.wait_for_beats(path)
    process.kill()
    process.communicate()
    redlock("run", "-w", "100s", "k", "true", env=nodes.env()).expect(0)


@case("a certificate for another name, or another address: 77")
def _(quorum):
    nodes = Nodes(quorum, addresses="DNS:redis.example,IP:127.0.0.9")
    why = "the server's certificate is for another name or address"
    for host in ("127.0.0.1", "localhost"):
        refused(77, why, nodes.env(host))
    for name in ("redis.example", "redis.example."):
        redlock("run", "--sni", name, "k", "true", env=nodes.env()).expect(0)
    refused(77, why, Nodes(quorum, addresses="IP:127.0.0.9").env(), "--sni", "server")  # its CN
    redlock("run", "--sni", "", "k", "true", env=nodes.env()).expect(78, err="--sni is empty")


@case("an unknown CA, an expired or an early certificate: 77; --insecure accepts them")
def _(quorum):
    nodes = Nodes(quorum, dates=old_dates())
    refused(77, "the server's certificate has expired: certificate has expired", nodes.env())
    refused(77, "is signed by an unknown CA", nodes.env(REDLOCK_CACERT=Authority("another").cert))
    redlock("run", "--insecure", "k", "true", env=nodes.env(REDLOCK_CACERT="")).expect(0)
    clock = WrongClock(lab.temporary("clock"))
    clock.jump(-86400 * 10**6 * 365)
    early = Nodes(quorum).env(**clock.environment())
    refused(77, "the server's certificate is not valid yet: certificate is not yet valid", early)


@case("no file of authorities: those of the system, as SSL_CERT_FILE names them; all others: 77")
def _(quorum):
    nodes, other = Nodes(quorum), Authority("another")
    why = "is signed by an unknown CA"
    empty = os.path.dirname(lab.temporary("x"))
    none = dict(REDLOCK_CACERT="", SSL_CERT_DIR=empty)
    refused(77, why, nodes.env(REDLOCK_CACERT=""))
    refused(77, why, nodes.env(**none, SSL_CERT_FILE=other.cert))
    redlock("run", "k", "true", env=nodes.env(**none, SSL_CERT_FILE=nodes.authority.cert)).expect(0)
    for ours in dict(REDLOCK_CACERT=other.cert), dict(REDLOCK_CACERT="", REDLOCK_CACERTDIR=empty):
        refused(77, why, nodes.env(**ours, SSL_CERT_FILE=nodes.authority.cert))


@case("no client certificate, or one of another CA: 77")
def _(quorum):
    nodes = Nodes(quorum)
    why = "the server requires a client certificate that it accepts"
    refused(77, why, nodes.env(REDLOCK_CERT="", REDLOCK_CERT_KEY=""))
    cert, key = Authority("another").sign("stranger")
    refused(77, why, nodes.env(REDLOCK_CERT=cert, REDLOCK_CERT_KEY=key))
    for server in quorum.servers:
        server.call("CONFIG", "SET", "tls-protocols", "TLSv1.2")
    refused(77, why, nodes.env(REDLOCK_CERT="", REDLOCK_CERT_KEY=""))
    redlock("run", "k", "true", env=nodes.env()).expect(0)
    for server in quorum.servers:
        server.call("CONFIG", "SET", "tls-protocols", "")


@case("a port that speaks plain text: 69, whether it replies or waits for the end of a line")
def _(quorum):
    nodes = ",".join(f"rediss://127.0.0.1:{server.listen()}" for server in quorum.servers)
    redlock("run", "-n", "-N", nodes, "k", "true").expect(
        69, err="no reply in time: does this port speak TLS")
    check("(no reply in time: does this port speak TLS?)" in redlock("check", "-N", nodes).out,
          "not by check")
    with plain_text(b"-DENIED Redis is running in protected mode\r\n") as uri:
        redlock("run", "-n", "-N", uri, "k", "true", env=patient()).expect(
            69, err="the server's port speaks plain text: use redis://")
        check("the server's port speaks plain text" in redlock("check", "-N", uri).out, "check")


@case("plain text to a port that speaks TLS: 69")
def _(quorum):
    nodes = Nodes(quorum)
    uris = nodes.env()["REDLOCK_NODES"].replace("rediss", "redis")
    redlock("run", "-n", "-N", uris, "k", "true", env=patient()).expect(69, err="closed")


@case("files that cannot be used: 78, and the file's name")
def _(quorum):
    nodes = Nodes(quorum)
    empty, (cert, key) = lab.write(lab.temporary("empty"), ""), nodes.client
    other = nodes.authority.sign("other")[1]
    encrypted = lab.temporary("encrypted")
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", encrypted)
    missing, no_key = ": No such file or directory", ": no PEM private key without"
    for variables, name, why in (
            (dict(REDLOCK_CACERT="/none"), "/none", missing),
            (dict(REDLOCK_CERT_KEY=encrypted), encrypted, no_key),
            (dict(REDLOCK_CERT_KEY=empty), empty, no_key),
            (dict(REDLOCK_CACERT=empty), empty, ": no PEM certificate"),
            (dict(REDLOCK_CERT=empty), empty, ": no PEM certificate"),
            (dict(REDLOCK_CACERTDIR="/none"), "/none", missing),
            (dict(REDLOCK_CACERTDIR=cert), cert, ": Not a directory"),
            (dict(REDLOCK_CERT="/none"), "/none", missing),
            (dict(REDLOCK_CERT_KEY="/none"), "/none", missing),
            (dict(REDLOCK_CERT_KEY=other), other, ": it is not the key of the certificate")):
        outcome = redlock("run", "k", "true", env=nodes.env(**variables)).expect(
            78, err=re.escape(name) + why)
        equal(outcome.err.count("\n"), 1, f"lines of {outcome}")


@case("OpenSSL is loaded for rediss:// alone; without it: 78")
def _(quorum):
    folder = lab.temporary("libraries")
    os.mkdir(folder)
    tls, crypto = (os.path.join(folder, f"{name}.so.{ssl.OPENSSL_VERSION_INFO[0]}")
                   for name in ("libssl", "libcrypto"))
    for library in (tls, crypto):
        lab.write(library, "")
    without = {"LD_LIBRARY_PATH": folder}
    redlock("run", "k", "true", env={**lab.on(quorum), **without}).expect(0)
    redlock("status", "k", env={**Nodes(quorum).env(), **without}).expect(
        78, err=f"TLS: {tls}: ")
    redlock("local", "--tls", "--", "true", env=without).expect(
        78, err=f"local: {crypto}: ")


@case("files that are replaced are used at the next connection")
def _(quorum):
    nodes = Nodes(quorum)
    path = lab.temporary("beats")
    holder = start("run", "-t", "30s", "k", *lab.beat(path), env=nodes.env())
    lab.wait_for_beats(path)
    new = Authority("a new CA")
    for theirs, ours in zip((new.cert, *new.sign("client")), (nodes.authority.cert, *nodes.client)):
        replace(ours, theirs)
    cert, key = new.sign("server")
    for server in quorum.servers:
        server.call("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key,
                    "tls-ca-cert-file", new.cert)
        clients = server.call("CLIENT", "LIST", "TYPE", "normal")
        before = {line.split()[0][3:] for line in clients.splitlines() if "127.0.0.1" in line}
        check(before, "no connection of the holder")
        for number in before:
            server.call("CLIENT", "KILL", "ID", number)

        def is_back(server=server):
            clients = server.call("CLIENT", "LIST", "TYPE", "normal")
            return "addr=127.0.0.1" in clients and "cmd=info" not in clients
        lab.wait_for(is_back, "a new connection")
    holder.terminate()
    finish(holder).expect(143)


VERSIONS = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class Proxy:
    """Ends TLS in front of a server; sends bytes one by one if `crumbs`.

    `seen` has for each handshake "resumed" or "whole", and the client's name if `asks` for its
    certificate; or "failed", and why. `names`: what clients called the server (SNI).

    """

    def __init__(self, server, authority, version=VERSIONS[-1], crumbs=False, asks=False):
        self.path, self.crumbs, self.seen, self.names = server.path, crumbs, [], []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*authority.sign("proxy"))
        self.context.maximum_version = version
        self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        if asks:
            self.context.load_verify_locations(authority.cert)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                raw = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(raw,), daemon=True).start()

    def serve(self, raw):
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            near = self.context.wrap_socket(raw, server_side=True)
            name = (near.getpeercert() or {}).get("subject", (((None, None),),))[0][0][1]
            self.seen.append(("resumed" if near.session_reused else "whole", name))
            with near, socket.socket(socket.AF_UNIX) as far:
                far.connect(self.path)
                threading.Thread(target=self.carry, args=(near, far), daemon=True).start()
                while reply := far.recv(65536):
                    step = 1 if self.crumbs else len(reply)
                    for at in range(0, len(reply), step):
                        near.sendall(reply[at:at + step])
                near.shutdown(socket.SHUT_RDWR)  # also ends carry()
        except ssl.SSLError as error:
            self.seen.append(("failed", str(error)))
        except OSError:
            pass  # the client is gone

    @staticmethod
    def carry(near, far):
        try:
            while data := near.recv(65536):
                far.sendall(data)
            far.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one end is gone


def hold(proxy, ttl="30s", **files):
    """A `redlock run` that has connected through the proxy."""
    path = lab.temporary("beats")
    env = {**patient(), "REDLOCK_NODES": f"rediss://localhost:{proxy.port}", **files}
    # A key of its own: a release may not reach a node that is being connected.
    holder = start("-vv", "run", "-t", ttl, str(proxy.port), *lab.beat(path), env=env)
    lab.wait_for_beats(path)
    return holder


def reconnect(server, proxy):
    """Cuts the connection, and returns what the proxy saw of the next one."""
    before = len(proxy.seen)
    server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return lab.wait_for(lambda: proxy.seen[before:], "a new connection")[0]


def is_refused(handshake, why="unknown.ca"):
    equal(handshake[0], "failed", f"a handshake, {handshake}")
    matches(handshake[1].lower(), why, "what the client says")


@case("a session is resumed at the next connection, by TLS 1.2 and 1.3; replies in crumbs")
def _(quorum):
    authority = Authority("a CA")
    for version in VERSIONS:
        proxy = Proxy(quorum[0], authority, version, crumbs=True)
        holder = hold(proxy, REDLOCK_CACERT=authority.cert)
        equal(reconnect(quorum[0], proxy), ("resumed", None), "the second connection")
        equal(proxy.seen[0], ("whole", None), "the first connection")
        holder.terminate()
        finish(holder).expect(143)
        proxy.listener.close()


@case("no session of before a change of a file is resumed: another CA, and the node is refused")
def _(quorum):
    for version in VERSIONS:
        authority, other = Authority("a CA"), Authority("another CA")
        ours = shutil.copy(authority.cert, lab.temporary("ca.crt"))
        proxy = Proxy(quorum[0], authority, version)
        holder = hold(proxy, ttl="10s", REDLOCK_CACERT=ours)
        equal(reconnect(quorum[0], proxy), ("resumed", None), "with the same CA")
        replace(ours, other.cert)
        is_refused(reconnect(quorum[0], proxy))
        if version != VERSIONS[-1]:
            holder.terminate()
            finish(holder).expect(143)
        else:
            finish(holder).expect(124, err="state=down fault=tls_ca")
        proxy.listener.close()


@case("no session of before a change of a file is resumed: another folder of CAs")
def _(quorum):
    authority, other = Authority("a CA"), Authority("another CA")
    folder = os.path.dirname(lab.temporary("x"))
    path = shutil.copy(authority.cert, os.path.join(folder, "ca.pem"))
    subprocess.run(["openssl", "rehash", folder], check=True)
    proxy = Proxy(quorum[0], authority)
    holder = hold(proxy, REDLOCK_CACERTDIR=folder)
    replace(path, other.cert)
    subprocess.run(["openssl", "rehash", folder], check=True)
    is_refused(reconnect(quorum[0], proxy))
    holder.terminate()
    finish(holder).expect(143)
    proxy.listener.close()


MONTH, MINUTE = 30 * 86400 * 10**6, 60 * 10**6


@case("no session is resumed after the end of the server's certificate")
def _(quorum):
    for version in VERSIONS:
        authority = Authority("a CA")
        proxy = Proxy(quorum[0], authority, version)
        clock = WrongClock(lab.temporary("clock"))
        clock.jump(MONTH - 10 * MINUTE)
        holder = hold(proxy, REDLOCK_CACERT=authority.cert, **clock.environment())
        equal(reconnect(quorum[0], proxy), ("resumed", None), "before the end")
        clock.jump(20 * MINUTE)
        is_refused(reconnect(quorum[0], proxy), "certificate.expired")
        holder.terminate()
        finish(holder).expect(143)
        proxy.listener.close()


@case("an authority that is withdrawn in place, in a folder or the system's store: after 60 s")
def _(quorum):
    for version in VERSIONS:
        for variable in "REDLOCK_CACERTDIR", "SSL_CERT_DIR", "SSL_CERT_FILE":
            authority, other = Authority("a CA"), Authority("a CA")
            path = shutil.copy(authority.cert, lab.temporary("ca.pem"))
            folder = os.path.dirname(path)
            subprocess.run(["openssl", "rehash", folder], check=True)
            proxy = Proxy(quorum[0], authority, version)
            clock = WrongClock(lab.temporary("clock"), "all")
            holder = hold(proxy, ttl="20m", **clock.environment(),
                          **{variable: path if variable == "SSL_CERT_FILE" else folder})
            equal(reconnect(quorum[0], proxy), ("resumed", None), f"with {variable}")
            shutil.copy(other.cert, path)
            clock.jump(MINUTE)
            is_refused(reconnect(quorum[0], proxy), "unknown.ca|decrypt.error|bad.certificate")
            holder.terminate()
            finish(holder).expect(143)
            proxy.listener.close()


@case("no session of before a change of a file is resumed: another certificate and key")
def _(quorum):
    for version in VERSIONS:
        authority = Authority("a CA")
        proxy = Proxy(quorum[0], authority, version, asks=True)
        cert, key = (shutil.copy(path, lab.temporary("ours")) for path in authority.sign("one"))
        holder = hold(proxy, REDLOCK_CACERT=authority.cert, REDLOCK_CERT=cert, REDLOCK_CERT_KEY=key)
        equal(reconnect(quorum[0], proxy), ("resumed", "one"), "with the same certificate")
        for ours, theirs in zip((key, cert), reversed(authority.sign("two"))):
            replace(ours, theirs)
        equal(reconnect(quorum[0], proxy), ("whole", "two"), "with another certificate")
        holder.terminate()
        finish(holder).expect(143)
        proxy.listener.close()


@case("the name that the server is called: that of --sni, else the host's; never an address")
def _(quorum):
    authority = Authority("a CA")
    for host, sni, name in (("localhost", None, "localhost"), ("127.0.0.1", None, None),
                            ("127.0.0.1", "redis.example", "redis.example"),
                            ("localhost", "redis.example.", "redis.example"),
                            ("localhost", "127.0.0.9", None)):
        proxy = Proxy(quorum[0], authority)
        words = ["--sni", sni] if sni else []
        redlock("run", "-N", f"rediss://{host}:{proxy.port}", "--insecure", *words, "k", "true",
                env=patient()).expect(0)
        equal(set(proxy.names), {name}, f"what {host} was called, with --sni {sni}")
        proxy.listener.close()


@case("a list of many pages")
def _(quorum):
    nodes = Nodes(quorum)
    script = "for i = 1, 400 do redis.call('SET', string.rep('k', 200) .. i, " \
             "'p' .. string.rep('a', 32) .. '@host:' .. i, 'PX', 600000) end"
    for server in quorum.servers:
        server.call("EVAL", script, 0)
    out = redlock("list", env=nodes.env()).expect(0).out
    check(out.count("\n") >= 400, f"only {len(out.splitlines())} lines")


if __name__ == "__main__":
    lab.main()
