"""rediss://: what a caller is told of certificates and files that cannot be used."""
import shutil

import certificates
import lab
import pytest

import redlock_quorum as rq


@pytest.fixture
def authority():
    return certificates.Authority("python")


@pytest.fixture
def nodes(quorum, authority):
    pair = authority.sign("server")
    try:
        ports = [certificates.serve(server, authority, pair, clients="no")
                 for server in quorum.servers]
    except lab.Skipped as why:
        pytest.skip(str(why))
    return [f"rediss://127.0.0.1:{port}" for port in ports]


def test_a_ca(nodes, authority):
    options = rq.Options(node_timeout=5, tls_ca_file=authority.cert)
    with rq.Client(nodes, options) as made, made.lock("k") as hold:
        assert hold.valid()
    with rq.Client(nodes, rq.Options(node_timeout=5)) as made:
        with pytest.raises(rq.Denied, match="unknown CA") as refused:
            made.lock("k").acquire(timeout=0)
    assert refused.value.reason == "CERTIFICATE"


def test_a_file_that_goes_bad_after_the_start(nodes, authority, quorum):
    """It is named until it is good again; a quorum of connections stays."""
    cert, key = authority.sign("client")
    bad = lab.write(lab.temporary("bad"), "nothing\n")
    options = rq.Options(node_timeout=5, tls_ca_file=authority.cert, tls_cert_file=cert,
                         tls_key_file=key)
    with rq.Client(nodes, options) as made, made.lock("k"):
        def first():
            return made.inspect("k").nodes[0]
        for fault, path, text in (
                ("tls_ca_file", authority.cert, "the CA certificates cannot be used"),
                ("tls_cert_file", cert, "the client's certificate cannot be used"),
                ("tls_key_file", key, "the client's private key cannot be used")):
            lab.wait_for(lambda: not first().fault, "a connection")
            good = shutil.copy(path, lab.temporary("good"))
            certificates.replace(path, bad)
            quorum[0].call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            lab.wait_for(lambda: first().fault == fault, fault)
            assert first().text.startswith(f"TLS: {text}: {path}: no PEM "), first()
            certificates.replace(path, good)
        lab.wait_for(lambda: not first().fault, "a connection")
