"""A CA, and the certificates that it signs, made by openssl(1)."""
import os
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

    def sign(self, name, addresses="DNS:localhost,IP:127.0.0.1,IP:::1", dates=("-days", "30")):
        """Returns the paths of a certificate and its key."""
        cert, key, request = self.path(f"{name}.crt"), self.path(f"{name}.key"), \
            self.path(f"{name}.csr")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", request, "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={addresses}")
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
