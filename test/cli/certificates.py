"""A CA, and the certificates that it signs, made by openssl(1)."""
import os
import shutil
import subprocess

import lab
from redis_server import need_tls

EXPIRED = ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")


def openssl(*words, text=None):
    done = subprocess.run(["openssl", *words], input=text, capture_output=True, text=True)
    lab.check(done.returncode == 0, f"openssl {' '.join(words)}: {done.stderr}")


def old_dates():
    """Options of `openssl x509 -req` by which the certificate has expired."""
    said = subprocess.run(["openssl", "x509", "-help"], capture_output=True, text=True)
    return EXPIRED if EXPIRED[0] in said.stderr + said.stdout else ("-days", "-1")


class Authority:
    """A CA in a folder of its own; `cert` is its certificate."""

    def __init__(self, name):
        self.home = os.path.dirname(lab.temporary("x"))
        self.name = name
        self.cert, self.key = self.path("ca.crt"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.key, "-out", self.cert, "-subj", f"/CN={name}", "-days", "30")

    def path(self, name):
        return os.path.join(self.home, name)

    def sign(self, name, addresses="DNS:localhost,IP:127.0.0.1,IP:::1", dates=("-days", "30"),
             extensions=()):
        """Returns the paths of a certificate and its key."""
        cert, key, request = self.path(f"{name}.crt"), self.path(f"{name}.key"), \
            self.path(f"{name}.csr")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", request, "-subj", f"/CN={name}",
                *(word for extension in (f"subjectAltName={addresses}", *extensions)
                  for word in ("-addext", extension)))
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key,
                "-copy_extensions", "copyall", "-out", cert, *dates)
        return cert, key


def serve(server, authority, pair, clients="yes"):
    """Opens a TLS port of the server and returns its number."""
    need_tls()
    cert, key = pair

    def try_one():
        port = lab.free_port()
        try:
            server.call("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key,
                        "tls-ca-cert-file", authority.cert, "tls-auth-clients", clients,
                        "tls-port", port)
        except lab.RedisError as error:
            lab.check("Unable to listen" in str(error), str(error))
            return 0
        return port
    return lab.wait_for(try_one, "a free port")


class Nodes:
    """The quorum by TLS: a CA, a certificate of the servers, and one of the client."""

    def __init__(self, quorum, host="127.0.0.1", **server):
        self.quorum, self.host = quorum, host
        self.authority = Authority("a CA")
        self.client = self.authority.sign("client")
        pair = self.authority.sign("server", **server)
        self.ports = [serve(one, self.authority, pair) for one in quorum.servers]

    def env(self, host=None, **more):
        nodes = ",".join(f"rediss://{host or self.host}:{port}" for port in self.ports)
        cert, key = self.client
        return {"REDLOCK_NODES": nodes, "REDLOCK_CACERT": self.authority.cert,
                "REDLOCK_CERT": cert, "REDLOCK_CERT_KEY": key, **patient(), **more}


def patient():
    path = os.path.join(lab.folder, "patience")
    if not os.path.exists(path):
        lab.write(path, f"timeout = {lab.PATIENCE}\n")
    return {"REDLOCK_CONFIG": path}


def replace(path, by):
    """With another inode, as most programs do it."""
    shutil.copy(by, path + ".new")
    os.rename(path + ".new", path)
