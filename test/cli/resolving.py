#!/usr/bin/env python3
"""Nodes that are named: a name server that is silent, fails, lies, or knows several addresses.

In a network and a mount namespace of its own, so that 127.0.0.1:53 is the only name server.
"""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import lab
from lab import case, check, equal, redlock

INSIDE = "RESOLVING_INSIDE"
RESOLV_CONF, NSSWITCH_CONF = "/etc/resolv.conf", "/etc/nsswitch.conf"
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8913, 0x8914, 0x8916, 1
MS_BIND = 4096
A, AAAA, IN = 1, 28, 1
SERVFAIL, NXDOMAIN = 2, 3
SIOCADDRT, RTF_UP, RTF_HOST, RTF_REJECT = 0x890B, 1, 4, 0x200


def raise_loopback():
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def put_over(target, text):
    """Puts a file over the machine's one; the namespace ends with the process."""
    if not os.path.exists(target):
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    libc = ctypes.CDLL(None, use_errno=True)
    bound = libc.mount(file.name.encode(), os.path.realpath(target).encode(), None, MS_BIND, None)
    os.unlink(file.name)
    return bound == 0


class NameServer:
    """Answers each question for an address by what `answer(name)` gives; None: not at all."""

    def __init__(self, answer):
        self.answer, self.asked, self.ends = answer, 0, False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.socket.settimeout(0.05)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends = True
        self.thread.join()
        self.socket.close()

    def serve(self):
        while not self.ends:
            try:
                question, sender = self.socket.recvfrom(512)
            except TimeoutError:
                continue
            self.asked += 1
            reply = self.answer(question)
            if reply is not None:
                self.socket.sendto(reply, sender)


def reply(question, known, number=None):
    """`known`: the addresses, or the code of an error; `number`: instead of the question's."""
    kind = struct.unpack("!H", question[-4:-2])[0]
    code, texts = (known, ()) if isinstance(known, int) else (0, known)
    head = (number or question[:2]) + struct.pack("!HHHHH", 0x8180 | code, 1, len(texts), 0, 0)
    rows = b""
    for text in texts:
        address = socket.inet_pton(socket.AF_INET6 if kind == AAAA else socket.AF_INET, text)
        rows += b"\xc0\x0c" + struct.pack("!HHIH", kind, IN, 1, len(address)) + address
    return head + question[12:] + rows


def answers(ipv4, ipv6, number=None):
    """To questions for addresses of each family: as reply(), or None: not at all."""
    def answer(question):
        known = {A: ipv4, AAAA: ipv6}.get(struct.unpack("!H", question[-4:-2])[0], ())
        return None if known is None else reply(question, known, number)
    return answer


def addresses(*texts):
    return answers(texts, ())


def nodes(quorum, uri):
    """The first node by this URI, the others by their sockets."""
    path = lab.write(lab.temporary("conf"), f"timeout = {lab.PATIENCE}\n")
    return {"REDLOCK_NODES": ",".join([uri, *quorum.uris[1:]]), "REDLOCK_CONFIG": path}


def locks(quorum, answer, port):
    """A quorum locks while the name server does that; returns what `status` prints after it."""
    with NameServer(answer) as server:
        env = nodes(quorum, f"redis://node.test:{port}")
        redlock("run", "k", "true", env=env).expect(0)
        lab.wait_for(lambda: server.asked > 0, "a question")
        return redlock("status", "k", env=env).out


def only(uri):
    """These nodes, and the time that they and their lookups take on a busy machine."""
    path = lab.write(lab.temporary("conf"), "timeout = 20s\n")
    return {"REDLOCK_NODES": uri, "REDLOCK_CONFIG": path}


@contextlib.contextmanager
def bound(server, address):
    """The server listens there and on no other address; gives the port."""
    before = [server.call("CONFIG", "GET", name)[1] for name in ("bind", "protected-mode")]
    port = server.listen()
    server.call("CONFIG", "SET", "protected-mode", "no")
    server.call("CONFIG", "SET", "bind", address)
    yield port
    server.call("CONFIG", "SET", "bind", before[0])
    server.call("CONFIG", "SET", "protected-mode", before[1])


@contextlib.contextmanager
def holder_of(quorum, port):
    """A lock is held and extended meanwhile; the first node is named."""
    env = nodes(quorum, f"redis://node.test:{port}")
    holder = lab.start("run", "-t", "2s", "k", *lab.beat(lab.temporary("beats")), env=env)
    yield
    holder.terminate()
    lab.finish(holder).expect(143)


def await_named(quorum):
    lab.wait_for(lambda: quorum.values("k")[0], "the lock on the node that is named")


@case("a name server that never replies: a quorum of the others holds the lock")
def _(quorum):
    out = locks(quorum, lambda question: None, quorum[0].listen())
    check("free on 4 of 5 nodes" in out, out)


@case("a name server that lies: garbage, a reply to another question, no address")
def _(quorum):
    port = quorum[0].listen()
    for answer in (lambda question: os.urandom(40), lambda question: question[:12],
                   answers(["127.0.0.1"], ["::1"], number=b"\xff\xff"), addresses()):
        out = locks(quorum, answer, port)
        check("free on 4 of 5 nodes" in out, out)


@case("a name server that names another node: it is noticed, and has one vote")
def _(quorum):
    out = locks(quorum, addresses("127.0.0.1"), quorum[1].listen())
    check("already a node under another address" in out and "4 of 5" in out, out)


@case("a name with three addresses, of which the last one works")
def _(quorum):
    port = quorum[0].listen()
    quorum[0].call("CONFIG", "SET", "bind", "127.0.0.1")
    with NameServer(addresses("127.0.0.7", "127.0.0.8", "127.0.0.1")):
        with holder_of(quorum, port):
            await_named(quorum)


class Configuration:
    """A file of /etc with this text, while a case runs."""

    def __init__(self, path, text):
        self.path, self.text = path, text

    def __enter__(self):
        self.before = lab.read(self.path)
        self.write(self.text)
        return self

    def __exit__(self, *_):
        self.write(self.before)

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text)


def servers(text):
    return Configuration(RESOLV_CONF, text)


@case("no name server: the names of /etc/hosts resolve")
def _(quorum):
    with servers("# none\n"):
        env = nodes(quorum, f"redis://localhost:{quorum[0].listen()}")
        redlock("acquire", *lab.PATIENT, "k", env=env).expect(0)
        out = redlock("status", *lab.PATIENT, "k", env=env).out
    check("on 5 of 5 nodes" in out, out)


@case("a name server that does not reply beside one that does")
def _(quorum):
    port = quorum[0].listen()
    with servers("nameserver 127.0.0.9\nnameserver 127.0.0.1\n"), \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, \
            NameServer(addresses("127.0.0.1")):
        silent.bind(("127.0.0.9", 53))
        with holder_of(quorum, port):
            await_named(quorum)


@case("a new name server in /etc/resolv.conf is asked from the next connection on")
def _(quorum):
    port = quorum[0].listen()
    with servers("nameserver 127.0.0.9\n") as file, NameServer(addresses("127.0.0.1")):
        with holder_of(quorum, port):
            lab.wait_for(lambda: quorum.values("k")[1], "a lock without that node")
            file.write("nameserver 127.0.0.1\n")
            await_named(quorum)


# --- why a node cannot be reached ---

def tells(env, text):
    redlock("run", "-n", "k", "true", env=env).expect(69, err=f": {text}\n")


@case("a name server that never replies, one that fails, and one that knows no such name")
def _(quorum):
    uri = "redis://node.test"
    with NameServer(answers(None, None)):
        tells({"REDLOCK_NODES": uri}, "no reply in time: the name server has not answered")
    for code, text in ((SERVFAIL, "Temporary failure in name resolution"),
                       (NXDOMAIN, "Name or service not known")):
        with NameServer(answers(code, code)):
            tells(only(uri), "the host name does not resolve: " + text)


def forbid(text):
    """A route that refuses this address: the host is unreachable."""
    def address(number):
        return struct.pack("=HH4s8x", socket.AF_INET, 0, number)
    row = struct.pack("@L16s16s16sHhLPhPLLH", 0, address(socket.inet_aton(text)), address(bytes(4)),
                      address(bytes(4)), RTF_UP | RTF_HOST | RTF_REJECT, 0, 0, 0, 0, 0, 0, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCADDRT, row)


@case("no route to the host, and none to its network")
def _(quorum):
    forbid("192.0.2.1")
    tells({"REDLOCK_NODES": "redis://192.0.2.1"}, "cannot connect: No route to host")
    tells({"REDLOCK_NODES": "redis://192.0.2.2"}, "cannot connect: Network is unreachable")


# --- how many questions, and how soon ---

def few(seconds, names=1):
    """Questions: 8 per name at once, and again every 5 s while it fails."""
    return 8 * names * (1 + seconds // 5)


@case("all names end in SERVFAIL: few questions for as long as a run waits")
def _(quorum):
    uris = ",".join(f"redis://{name}.test:{quorum[0].listen()}" for name in "abc")
    with NameServer(answers(SERVFAIL, SERVFAIL)) as server:
        outcome = redlock("run", "-w", "6s", "k", "true", env=only(uris)).expect(69)
    check(0 < server.asked <= few(outcome.seconds, 3), f"{server.asked} questions: {outcome}")


def expect_run(quorum, answer):
    """One lookup finds the node."""
    port = quorum[0].listen()
    with NameServer(answer) as server:
        outcome = redlock("run", "-n", "k", "true", env=only(f"redis://node.test:{port}"))
        outcome.expect(0)
    check(0 < server.asked <= few(outcome.seconds), f"{server.asked} questions: {outcome}")


@case("IPv4 is answered, and IPv6 ends in SERVFAIL")
def _(quorum):
    expect_run(quorum, answers(["127.0.0.1"], SERVFAIL))


@case("IPv4 is answered, and IPv6 never")
def _(quorum):
    expect_run(quorum, answers(["127.0.0.1"], None))


@case("eight names that are never answered: the others connect before those time out")
def _(quorum):
    known = addresses("127.0.0.1")
    with servers("nameserver 127.0.0.1\noptions timeout:30\n"), lab.Quorum(4) as more, \
            NameServer(lambda question: None if b"silent" in question else known(question)):
        silent = [f"redis://silent{number}.test" for number in range(8)]
        good = [f"redis://good{number}.test:{server.listen()}"
                for number, server in enumerate([*quorum.servers, *more.servers])]
        for uris in silent + good, good + silent:  # one of them asks for the silent ones first
            redlock("run", "-w", "25s", "k", "true",
                    env={"REDLOCK_NODES": ",".join(uris)}).expect(0)


# --- IPv6 ---

def can_bind(address, index=0):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((address, 0, 0, index))
        return True
    except OSError:
        return False


def has_ipv6():
    found = can_bind("::1")
    if not found:
        lab.say("skipped: no IPv6 here")
    return found


def add_ipv6(text):
    """An address of the loopback interface."""
    index = socket.if_nametoindex("lo")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket, \
            contextlib.suppress(FileExistsError):
        fcntl.ioctl(any_socket, SIOCSIFADDR, socket.inet_pton(socket.AF_INET6, text) +
                    struct.pack("=Ii", 128, index))
    lab.wait_for(lambda: can_bind(text, index), f"{text} on the loopback interface")


def add_ipv4(text):
    """See add_ipv6()."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0,
                                                         socket.inet_aton(text)))


@case("a name that has only a unique local IPv6 address, on a host with an IPv4 address")
def _(quorum):
    if not has_ipv6():
        return
    add_ipv4("10.83.0.1")
    add_ipv6("fd00::1")
    with bound(quorum[0], "fd00::1") as port, NameServer(answers((), ["fd00::1"])):
        redlock("run", "-n", "k", "true", env=only(f"redis://node.test:{port}")).expect(0)


@case("an IPv6 address with a zone")
def _(quorum):
    if not has_ipv6():
        return
    add_ipv6("fe80::1")
    with bound(quorum[0], "fe80::1%lo") as port:
        uri = f"redis://[fe80::1%25lo]:{port}"
        redlock("acquire", "-n", "k", env=only(uri)).expect(0)
        out = redlock("status", "--json", "k", env=only(uri)).out
        check(f'"{uri}"' in out, out)
        redlock("run", "-n", "k", "true", env=only(uri.replace("%25lo", "%25none"))).expect(69)


@case("a server in protected mode: the fault, its text and the finding")
def _(quorum):
    add_ipv4("10.83.0.1")
    with bound(quorum[0], "10.83.0.1") as port:
        quorum[0].call("CONFIG", "SET", "protected-mode", "yes")
        env = only(f"redis://10.83.0.1:{port}")
        text = "the server is in protected mode and refuses clients from other machines"
        redlock("run", "-n", "k", "true", env=env).expect(77, err=text)
        [node] = redlock("acquire", "-n", "--json", "k", env=env).expect(77).json()["nodes"]
        equal([node["fault"], node["denied"]], ["protected", True], "fault")
        check("protected_mode" in redlock("check", env=env).expect(2).out, "the finding")


# --- several addresses ---

@case("a name with two addresses, of which the first refuses: every command uses the second")
def _(quorum):
    with bound(quorum[0], "127.0.0.9") as port, \
            NameServer(addresses("127.0.0.1", "127.0.0.9")):
        env = only(f"redis://node.test:{port}")
        redlock("run", "-n", "k", "true", env=env).expect(0)
        token = redlock("acquire", "-w", "20s", "k", env=env).expect(0).out.strip()
        env["REDLOCK_TOKEN"] = token
        redlock("status", "k", env=env).expect(0)
        redlock("extend", "k", env=env).expect(0)
        check("1 of 1" in redlock("check", env=env).out, "check reaches the node")
        redlock("release", "k", env=env).expect(0)
        equal(quorum[0].call("EXISTS", "k"), 0, "the key after the release")


# --- without a name server, and with another one ---

@case("a name server that fails, or is silent, after the first connection: no vote is lost")
def _(quorum):
    port = quorum[0].listen()
    with NameServer(addresses("127.0.0.1")) as server:
        env = only(f"redis://node.test:{port}")
        holder = lab.start("run", "-t", "20s", "k", *lab.beat(lab.temporary("beats")), env=env)
        lab.wait_for(lambda: quorum[0].call("EXISTS", "k"), "the lock")
        for outage in (answers(SERVFAIL, SERVFAIL), answers(None, None)):
            server.answer = outage
            lab.wait_for(lambda: quorum[0].call("PTTL", "k") < 19000, "a second of the TTL")
            quorum[0].call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            lab.wait_for(lambda: quorum[0].call("PTTL", "k") > 19000, "an extension")
        holder.terminate()
        lab.finish(holder).expect(143)


@case("a name of another service of nsswitch.conf")
def _(quorum):
    if not os.path.exists(os.path.join(os.environ.get("NSS_FOLDER", ""), "libnss_made.so.2")):
        lab.say("skipped: the module is not built")
        return
    with Configuration(NSSWITCH_CONF, "hosts: files made\n"):
        env = only(f"redis://made.test:{quorum[0].listen()}")
        env["LD_LIBRARY_PATH"] = os.environ["NSS_FOLDER"]
        redlock("run", "-n", "k", "true", env=env).expect(0)


def main():
    if os.environ.get(INSIDE):
        raise_loopback()
        if not (put_over(RESOLV_CONF, "nameserver 127.0.0.1\n") and
                put_over(NSSWITCH_CONF, "hosts: files dns\n")):
            print("1..0 # SKIP /etc/resolv.conf and nsswitch.conf cannot be replaced")
            sys.exit(0)
        lab.main()
    unshare = ["unshare", "--mount", "--net", *([] if os.getuid() == 0 else
                                                ["--user", "--map-root-user"])]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("1..0 # SKIP namespaces are not allowed here")
        sys.exit(0)
    os.execvpe(unshare[0], [*unshare, sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


if __name__ == "__main__":
    main()
