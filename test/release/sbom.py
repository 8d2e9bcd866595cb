#!/usr/bin/env python3
"""Writes the SBOM of a release, in SPDX 2.3: which libraries are linked into which file.

usage: sbom.py FOLDER VERSION TIME   writes FOLDER/redlock-VERSION.spdx.json, if there is any

Each file that bundles libraries has a list `libraries` ("PACKAGE VERSION" of Debian), and
PACKAGE.copyright of each. A licence that is not found there is an error.
"""
import hashlib
import json
import pathlib
import re
import sys
import tarfile
import uuid
import zipfile

# By the names of SPDX. Both of the last have no copyright file that a program can read.
LICENSES = {"apache-2.0": "Apache-2.0", "bsd-3-clause": "BSD-3-Clause", "expat": "MIT"}
OF_COMPILER = {"libc6": "LGPL-2.1-or-later", "libgcc": "GPL-3.0-or-later WITH GCC-exception-3.1"}


def texts_of(path):
    """{name without folders: text} of `libraries` and of the copyright files; {} without."""
    wanted = re.compile(r"(?:.*/)?(libraries|[^/]+\.copyright)$")
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as packed:
            return {match[1]: packed.read(name).decode() for name in packed.namelist()
                    if (match := wanted.match(name))}
    with tarfile.open(path) as packed:
        return {match[1]: packed.extractfile(name).read().decode() for name in packed.getnames()
                if (match := wanted.match(name))}


def license_of(package, text):
    for prefix, license_ in OF_COMPILER.items():
        if package.startswith(prefix):
            return license_
    found = re.search(r"^Files: \*\n(?:.+\n)*?License: (\S+)$", text, re.MULTILINE)
    return LICENSES[found[1].lower()]


def entry(name, version, license_, **more):
    return {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{name}-{version}"),
            "name": name, "versionInfo": version, "licenseDeclared": license_,
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, **more}


def entry_of_library(package, version, text):
    purl = f"pkg:deb/debian/{package}@{version.replace('+', '%2B')}"
    return entry(package, version, license_of(package, text), externalRefs=[{
        "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
        "referenceLocator": purl}])


def relation(of, kind, to):
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def main(folder, version, time):
    folder = pathlib.Path(folder)
    packages, relations = {}, []
    for path in sorted(folder.iterdir()):
        if not re.fullmatch(r".*\.whl|redlock-.*-linux-.*\.tar\.xz|.*-linux-.*\.tgz", path.name):
            continue
        texts = texts_of(path)
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        file = entry(path.name, version, "MIT", packageFileName=path.name,
                     checksums=[{"algorithm": "SHA256", "checksumValue": sha}])
        packages[file["SPDXID"]] = file
        relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", file["SPDXID"]))
        for line in texts["libraries"].splitlines():
            package, of_debian = line.split()
            library = entry_of_library(package, of_debian, texts[f"{package}.copyright"])
            packages[library["SPDXID"]] = library
            relations.append(relation(file["SPDXID"], "CONTAINS", library["SPDXID"]))
    if not packages:
        return
    name = f"redlock-{version}"
    content = json.dumps([list(packages.values()), relations])
    (folder / f"{name}.spdx.json").write_text(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": name, "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "creationInfo": {"created": time, "creators": [f"Tool: redlock-release-{version}"]},
        "packages": list(packages.values()), "relationships": relations}, indent=2) + "\n")


main(*sys.argv[1:])
