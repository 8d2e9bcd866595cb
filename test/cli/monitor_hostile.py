#!/usr/bin/env python3
"""redlock monitor: hostile clients neither stop it nor make it use much."""
import collections
import contextlib
import random
import re
import resource
import socket
import struct
import time

import lab
from lab import case, check, equal
from monitoring import Monitor

CONNECTIONS_MAX = 64  # HTTP_CONNECTIONS_MAX
ANSWER_KB = 256       # of /api/locks?limit=800, in its buffer
FILES_MORE = 10       # that connections which end may still have
MORE_KB = 8192        # of memory that may be used for longer
ANSWERS_KB = 2 * CONNECTIONS_MAX * ANSWER_KB + 2 * MORE_KB  # as many are ending
COMPUTE_SHARE = 1 / 4  # of a core, for what is computed
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
SECRET = "a-password"


def talk(monitor, *parts, ends=False):
    """All that it answers; `ends`: the client sends nothing more."""
    with monitor.connect() as one:
        try:
            for part in parts:
                one.sendall(part)
            if ends:
                one.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have had enough
        told = b""
        with contextlib.suppress(ConnectionResetError):
            while more := one.recv(65536):
                told += more
        return told


def status(told):
    """None: it closed the connection without an answer."""
    found = re.match(rb"HTTP/1\.[01] (\d+) ", told)
    check(found or not told, f"no HTTP: {told[:80]}")
    return int(found[1]) if found else None


def request(method="GET", path="/metrics", host="localhost", more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


@contextlib.contextmanager
def attacked(quorum, more_kb=MORE_KB):
    """A monitor whose canary goes on meanwhile, and that uses little more afterwards. What it
    allocates counts, also what it does not write."""
    with Monitor(quorum, "--every", "100ms", MALLOC_PERTURB_="165") as monitor:
        lab.wait_for(lambda: monitor.metrics("redlock_acquires_total")['result="ok"'], "a canary")
        for path in "/metrics", "/api/locks", "/api/nodes", "/":
            monitor.get(path)
        files, memory_kb = monitor.files(), monitor.memory_kb()
        yield monitor
        cycles = monitor.metrics("redlock_acquires_total")
        lab.wait_for(lambda: monitor.metrics("redlock_acquires_total")['result="ok"'] >
                     cycles['result="ok"'], "another cycle of the canary")
        equal({name: count for name, count in cycles.items() if name != 'result="ok"' and count}, {},
              "acquires that failed")
        lab.wait_for(lambda: monitor.files() <= files + FILES_MORE, "the end of the connections")
        check(monitor.memory_kb() <= memory_kb + more_kb,
              f"{memory_kb} kB, then {monitor.memory_kb()} kB")


@case("a thousand connections, each with half a request: it answers others, and keeps 64")
def _(quorum):
    with attacked(quorum) as monitor, contextlib.ExitStack() as stack:
        files = monitor.files()
        for index in range(1000):
            one = stack.enter_context(monitor.connect())
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                one.sendall(GET[:index % len(GET)])
            if index % 100 == 0:
                equal(monitor.get("/metrics")[0], 200, "meanwhile")
        lab.wait_for(lambda: monitor.files() <= files + CONNECTIONS_MAX + FILES_MORE, "an end of most")
        equal(monitor.get("/metrics")[0], 200, "afterwards")


@contextlib.contextmanager
def descriptors(count):
    """Those that what is started meanwhile may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@case("with the fewest descriptors that it accepts, connections take none from the nodes")
def _(quorum):
    with descriptors(64):
        told = lab.redlock("monitor", *lab.PATIENT, "--listen", f"unix:{lab.temporary('few')}",
                           env=lab.on(quorum)).expect(125, err="^redlock: Too many open files").err
    needed, free = map(int, re.findall(r" (\d+) file descriptors are needed, (\d+) are free", told)[0])
    with descriptors(64 + needed - free):
        monitor = Monitor(quorum)
    idle = collections.deque(maxlen=4 * CONNECTIONS_MAX)  # those that leave it are closed
    with monitor:
        def connected(index):
            for _ in range(2 * CONNECTIONS_MAX):
                idle.append(monitor.connect())
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    idle[-1].sendall(GET[:-1])
            return monitor.json("nodes")["nodes"][index]["connected"]
        lab.wait_for(lambda: connected(4), "all nodes")
        quorum.kill(1)
        lab.wait_for(lambda: not connected(1), "a node that is away")
        quorum.start()
        lab.wait_for(lambda: connected(1), "the node that is back")


def has_ended(one):
    """Waits for that, for up to a second."""
    one.settimeout(1)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def ends_earlier(monitor):
    """A connection that falls silent ends while one is open that sends a byte now and then; that
    one ends, too. False: they were seen to end at once."""
    with monitor.connect() as silent, monitor.connect() as slow:
        left, is_first = {"silent": silent, "slow": slow}, False
        for one in left.values():
            one.sendall(GET[:-2])
        while left:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.sendall(b"x")
            left = {name: one for name, one in left.items() if not has_ended(one)}
            is_first |= list(left) == ["slow"]
        return is_first


@case("a connection ends 10 s after its last byte, or 30 s after its begin")
def _(quorum):
    with attacked(quorum) as monitor:  # a busy machine may miss it once
        check(any(ends_earlier(monitor) for _ in range(3)), "a silent connection lasts as long")


@case("requests byte by byte get their answer, if they come to their end")
def _(quorum):
    with attacked(quorum) as monitor:
        for data in GET, request(host="other"):
            equal(status(talk(monitor, *(data[i:i + 1] for i in range(len(data))))),
                  200 if data == GET else 403, "status")


@case("what is too large is refused, or ends the connection")
def _(quorum):
    large = b"x" * 100000
    with attacked(quorum) as monitor:
        for parts in ([b"GET /", *[large] * 50], [b"GET / HTTP/1.1\r\nA: ", *[large] * 50],
                      [b"GET / HTTP/1.1\r\n", *[b"A: b\r\n" * 10000] * 20],
                      [large] * 50, [b"\r\n" * 50000] * 20,
                      [request("POST", more="Content-Length: 99999999999\r\n"), *[large] * 50],
                      [request("POST", more="Content-Length: -1\r\n"), large],
                      [request("POST", more="Content-Length: 99999999999999999999\r\n"), large],
                      [request("POST", more="Transfer-Encoding: chunked\r\n"),
                       *[b"186a0\r\n" + large + b"\r\n"] * 50],
                      [request("POST", more="Transfer-Encoding: chunked\r\n"),
                       b"ffffffffffffffff\r\n", large],
                      [request("POST", more="Expect: 100-continue\r\nContent-Length: 5\r\n"), b"xxxxx"],
                      [request(path="/api/locks?filter=" + "%61" * 2000)]):
            got = status(talk(monitor, *parts, ends=True))
            check(got in (None, 100, 200, 400, 405, 413, 414, 417, 431),
                  f"{parts[0][:60]}: {got}")
            check(got != 200 or parts[0].startswith(b"GET /api/locks"), f"{parts[0][:60]}: {got}")


@case("what is no HTTP is no request")
def _(quorum):
    draw = random.Random(46)
    letters = [b"GET ", b"/", b"/metrics", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b"\0", b":", b"Host: ",
               b"localhost", b"%", b"?", b"&=", b"//", b"\xff\xfe", b"Content-Length: 5", b"\t"]
    with attacked(quorum) as monitor:
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                     b"*1\r\n$4\r\nPING\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 5000,
                     b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n", b"\n\n\n\n"):
            check(status(talk(monitor, data, ends=True)) not in (200, 500), f"{data}")
        for _ in range(500):
            data = b"".join(draw.choices(letters, k=draw.randrange(1, 20)))
            status(talk(monitor, data, ends=True))
            status(talk(monitor, draw.randbytes(draw.randrange(1, 200)), ends=True))


@case("a name that is not ours is refused, so that no other site's page reads it")
def _(quorum):
    ours = ("localhost", "LOCALHOST", "localhost:9121", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:1", "::",
            socket.gethostname(), socket.gethostname() + ":9121", "10.1.2.3:9121")
    others = ("evil.example", "evil.example:9121", "localhost.evil.example", "127.0.0.1.evil.example",
              "evil.example:80:localhost", "evil@localhost", "xlocalhost", "localhost.", "", " ",
              "[::1", "0x7f000001x", "localhost evil.example", "127.0.0.1/", socket.gethostname() + "x")
    with attacked(quorum) as monitor:
        for host in ours:
            equal(status(talk(monitor, request(host=host))), 200, host)
        for host in others:
            equal(status(talk(monitor, request(host=host), ends=True)), 403, host)
        for path in "http://evil.example/metrics", "//evil.example/metrics", "http://localhost/metrics":
            check(status(talk(monitor, request(path=path))) in (400, 403, 404), path)
        for path in "http://localhost/metrics", "http://127.0.0.1/metrics", "//127.0.0.1/metrics":
            equal(status(talk(monitor, request(path=path, host="evil.example"))), 403, path)
        told = talk(monitor, request(host="evil.example", more="Host: localhost\r\n"))
        equal(status(told), 403, "two names")
        told = talk(monitor, request(more="Origin: http://evil.example\r\n"))
        check(b"Access-Control" not in told and b"no-store" in told, "other sites may read it")


@case("only its paths answer, and only to GET and HEAD")
def _(quorum):
    with attacked(quorum) as monitor:
        for path in ("/../metrics", "/./metrics", "/%2e%2e/etc/passwd", "/metrics/", "/metrics/..", "/METRICS",
                     "/metrics%00", "/metrics%2f", "/%6detrics", "/metrics;x", "//metrics", "/api",
                     "/api/", "/api/locks/", "/api/../metrics", "/api/locks%3fsort=key", "*", "metrics",
                     "/..%5c..%5cetc", "/" + "../" * 500, "/%", "/%zz", "/\x01", "/page.html"):
            told = talk(monitor, request(path=path), ends=True)
            check(status(told) in (None, 400, 403, 404, 405), f"{path}: {told[:40]}")
            check(b"root:" not in told, path)
        equal(status(talk(monitor, request(path="/metrics?x=1#y"))), 200, "with a query")
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "FLUSHALL", "get"):
            told = talk(monitor, request(method), ends=True)
            check(status(told) in (None, 400, 403, 405, 501), f"{method}: {told[:40]}")
        told = talk(monitor, request("HEAD"))
        equal((status(told), told.split(b"\r\n\r\n")[1]), (200, b""), "HEAD")
        for query in ("?sort=%00", "?filter=%", "?=&=&", "?" + "a=b&" * 500, "?offset=%31", "?limit=1&limit=x",
                      "?filter=" + "%ff" * 100, "?desc"):
            check(status(talk(monitor, request(path="/api/locks" + query))) in (200, 400), query)


@case("many requests in one, and a client that closes its half: one answer")
def _(quorum):
    with attacked(quorum) as monitor:
        for data in GET * 100, request("HEAD") * 100, GET + request("POST", more="Content-Length: 9\r\n"):
            told = talk(monitor, data)
            equal((status(told), told.count(b"HTTP/1.1 ")), (200, 1), f"{data[:60]}")
        for data in GET, request(path="/"), request(path="/api/locks?limit=1000"):
            told = talk(monitor, data, ends=True)
            length = int(re.search(rb"Content-Length: (\d+)", told)[1])
            equal(len(told.split(b"\r\n\r\n", 1)[1]), length, f"the length of {data[:60]}")
        for index in range(300):  # they are gone, some at once
            with monitor.connect() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.sendall(GET[:len(GET) - index % 2])
                if index % 6 == 0:
                    one.recv(10)


@case("clients that do not read: their answers are bounded, and others get theirs")
def _(quorum):
    for server in quorum.servers:
        server.call("EVAL", "for i = 1, 2000 do redis.call('SET', KEYS[1] .. i, ARGV[1], 'PX', 600000) end",
                    1, "job:" + "x" * 400, "p" + "a" * 32 + "@host:" + "y" * 50)
    with attacked(quorum, ANSWERS_KB) as monitor, contextlib.ExitStack() as stack:
        lab.wait_for(lambda: monitor.json("locks")["total"] >= 2000, "a scan")
        def asked():
            """A connection with an answer, of which it reads nothing; None: it was refused."""
            one = stack.enter_context(monitor.connect())
            one.sendall(request(path="/api/locks?limit=800"))
            if status(one.recv(64, socket.MSG_PEEK)) == 200:
                return one
            one.close()
            return None
        memory_kb = monitor.memory_kb()
        for _ in range(2 * CONNECTIONS_MAX):
            lab.wait_for(asked, "an answer")
        check(monitor.memory_kb() <= memory_kb + ANSWERS_KB,
              f"{memory_kb} kB, then {monitor.memory_kb()} kB beside clients that do not read")
        equal(monitor.get("/metrics")[0], 200, "another")


@case("too many requests that take time are refused, and others are answered")
def _(quorum):
    spans = range(1, CONNECTIONS_MAX - 4)  # seconds: each needs an answer of its own
    with attacked(quorum, ANSWERS_KB) as monitor:
        def attack():
            """How many of these requests at once are refused."""
            begun, used_s = time.monotonic(), monitor.cpu_s()
            with contextlib.ExitStack() as stack:
                asked = [stack.enter_context(monitor.connect()) for _ in spans]
                for one, span in zip(asked, spans):
                    one.sendall(request("HEAD", f"/api/latency?for={span}"))
                answers = [status(one.recv(65536)) for one in asked]
            equal(set(answers) - {200, 503}, set(), "answers")
            share = (monitor.cpu_s() - used_s) / (time.monotonic() - begun)
            if 503 not in answers and share < COMPUTE_SHARE:
                raise lab.Skipped("others leave it too little of the machine")
            return answers.count(503)
        check(lab.wait_for(attack, "a request that is refused") < len(spans), "all are refused")
        for path in "/metrics", "/api/nodes", "/":
            equal(monitor.get(path)[0], 200, path)
        lab.wait_for(lambda: monitor.get("/api/locks")[0] == 200, "an answer afterwards")


@case("no answer has a secret")
def _(quorum):
    for server in quorum.servers:
        server.call("ACL", "SETUSER", "teller", "on", f">{SECRET}", "~*", "&*", "+@all")
        server.call("SET", "k", "p" + "a" * 32 + "@x", "PX", 600000)
    uris = quorum.nodes.replace("unix://", f"unix://teller:{SECRET}@")
    with Monitor(quorum, "--every", "100ms", REDLOCK_NODES=uris) as monitor:
        lab.wait_for(lambda: monitor.json("locks")["total"], "a scan")
        for path in "/metrics", "/healthz", "/api/nodes", "/api/locks", "/api/latency", "/":
            code, text = monitor.get(path)
            equal(code, 200, path)
            check(SECRET not in text, f"{path} has the password")
            check(not re.search(r"\b[p][a-z2-7]{32}\b", text), f"{path} has a token")


lab.main()
