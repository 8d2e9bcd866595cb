#!/usr/bin/env python3
"""A node that fails in TLS: the fault, and the text with OpenSSL's words."""
import contextlib
import socket
import threading

import lab
from certificates import Nodes
from lab import case, equal, matches, redlock


def faults(env, code, fault, text):
    """The only node has this fault, and run and status tell this text."""
    redlock("run", "-n", "k", "true", env=env).expect(code, err=f": {text}[^\n]*\n")
    [node] = redlock("status", "--json", "k", env=env).json()["nodes"]
    equal(node["fault"], fault, f"the fault of {node}")
    matches(node["text"], f"^{text}", "the text in JSON")
    [finding] = redlock("check", "--json", env=env).expect(2).json()["nodes"][0]["findings"]
    matches(finding["code"], "^tls_", "the finding of check")
    matches(finding["text"], "^TLS: [^:]*: ", "the finding, and what to do")
    matches(finding["detail"], f"^{text}", "its detail")


@contextlib.contextmanager
def configured(server, *settings):
    server.call("CONFIG", "SET", *settings)
    try:
        yield
    finally:
        for name in settings[::2]:
            server.call("CONFIG", "SET", name, "")


@case("no version in common: the client's configuration wants 1.3, the server speaks 1.2")
def _(quorum):
    config = lab.write(lab.temporary("openssl.cnf"),
                       "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = new\n"
                       "[new]\nMinProtocol = TLSv1.3\n")
    env = Nodes(quorum).env(OPENSSL_CONF=config)
    redlock("run", "k", "true", env=env).expect(0)
    with configured(quorum[0], "tls-protocols", "TLSv1.2"):
        faults(env, 69, "tls_version", r"TLS: the server has no version \(1.2 or later\) in common: ")


@case("no cipher in common: the server refuses the handshake")
def _(quorum):
    env = Nodes(quorum).env()  # with a certificate that this cipher cannot use
    with configured(quorum[0], "tls-protocols", "TLSv1.2",
                    "tls-ciphers", "ECDHE-RSA-AES128-GCM-SHA256"):
        faults(env, 69, "tls_refused", "TLS: the server refused the handshake: ")


@case("a certificate that is not for servers: 77")
def _(quorum):
    env = Nodes(quorum, extensions=["extendedKeyUsage=clientAuth"]).env()
    faults(env, 77, "tls_certificate",
           "TLS: the server's certificate is not acceptable: [a-z]* certificate purpose")


@contextlib.contextmanager
def spoiled(port):
    """A way to the server on which the last byte of what it sends is changed; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source, target, mask):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data[:-1] + bytes([data[-1] ^ mask]))
            target.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as near, \
                        socket.create_connection(("127.0.0.1", port)) as far:
                    back = threading.Thread(target=carry, args=(far, near, 1))
                    back.start()
                    carry(near, far, 0)
                    back.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


@case("bytes that were changed on the way")
def _(quorum):
    nodes = Nodes(quorum)
    with spoiled(nodes.ports[0]) as port:
        nodes.ports = [port]
        faults(nodes.env(), 69, "tls", "TLS: the connection failed: ")


lab.main(1)
