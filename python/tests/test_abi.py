"""The declarations for cffi are those of the headers, as a C compiler lays them out."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from redlock_quorum import _native, library_version, __version__
from redlock_quorum._cdef import CDEF

PYTHON = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(PYTHON))
import make_cdef  # noqa: E402
INCLUDE = PYTHON.parent / "include"
ffi, lib = _native.ffi, _native.lib


def test_they_are_made_from_the_headers():
    subprocess.run([sys.executable, PYTHON / "make_cdef.py", "--check"], check=True)


def structs():
    for name in ffi.list_types()[0]:
        if name.endswith("_fn"):
            continue  # a function
        kind = ffi.typeof(name)
        if kind.kind == "struct" and kind.fields:
            yield name, kind.fields


def questions():
    """{what: its value here}: sizes, offsets and enumerators."""
    asked = {}
    for name, fields in structs():
        asked[f"sizeof({name})"] = ffi.sizeof(name)
        for field, about in fields:
            asked[f"offsetof({name}, {field})"] = ffi.offsetof(name, field)
            asked[f"sizeof((({name} *)0)->{field})"] = ffi.sizeof(about.type)
    for name in sorted(set(re.findall(r"\bREDLOCK_[A-Z0-9_]+\b", CDEF))):
        asked[name] = getattr(lib, name)
    return asked


def test_a_compiler_agrees(tmp_path):
    asked = questions()
    assert len(list(structs())) >= 15
    lines = "".join(f'printf("%lld\\n", (long long)({what}));\n' for what in asked)
    source = tmp_path / "layout.c"
    source.write_text("#include <redlock/admin.h>\n#include <redlock/settings.h>\n#include <redlock/stats.h>\n"
                      "#include <stddef.h>\n#include <stdio.h>\n"
                      f"int main(void)\n{{\n{lines}return 0;\n}}\n")
    subprocess.run([*os.environ.get("CC", "cc").split(), f"-I{INCLUDE}", source,
                    "-o", tmp_path / "layout"], check=True)
    shown = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True)
    assert dict(zip(asked, map(int, shown.stdout.split()))) == asked


def test_each_function_is_exported():
    for name in re.findall(r"\b(redlock_\w+|event_\w+)\(", CDEF):
        if not name.endswith("_fn"):
            assert getattr(lib, name)


def test_each_code_has_a_class():
    from redlock_quorum import _errors
    general = {"OK", "NOT_EMPTY", "UNREACHED", "UNADMITTED", "MEMBER_INACTIVE",
               "WRONG_DEPLOYMENT"}  # admin.h, redlock_admit()
    names = {name.removeprefix("REDLOCK_") for name in
             ffi.typeof("redlock_code").relements}
    assert names == set(_errors._CLASSES) | general


def test_versions():
    """Of the same tree; the package spells it as PEP 440 does."""
    forms = [subprocess.run([PYTHON / "../src/version.py", *form], check=True, text=True,
                            capture_output=True).stdout.strip() for form in ([], ["--python"])]
    assert [library_version(), __version__] == forms


def test_a_library_that_is_missing(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import redlock_quorum"], cwd=PYTHON, text=True,
                          env={**os.environ, "REDLOCK_LIBRARY": str(tmp_path / "none.so")},
                          stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert "set REDLOCK_LIBRARY" in done.stderr


def test_the_library_of_a_wheel(tmp_path):
    """It lies beside the package, and only REDLOCK_LIBRARY goes before it."""
    shutil.copytree(PYTHON / "redlock_quorum", tmp_path / "redlock_quorum")
    ours = shutil.copy(os.environ["REDLOCK_LIBRARY"], tmp_path / "redlock_quorum" / _native.NAME)
    for other in ("", shutil.copy(ours, tmp_path / "other.so")):
        done = subprocess.run([sys.executable, "-c", "import redlock_quorum\n"
                               "print(open('/proc/self/maps').read())"], cwd=tmp_path, check=True,
                              env={**os.environ, "REDLOCK_LIBRARY": str(other)}, text=True,
                              stdout=subprocess.PIPE)
        loaded = set(re.findall(rf"{tmp_path}/.*\.so.*", done.stdout))
        assert loaded == {str(other or ours)}


def test_a_wheel_exports_what_is_called_of_libevent():
    called = re.findall(r"^[^#].*?(event_\w+)\(", make_cdef.LIBEVENT, re.M)
    exported = re.findall(r"^    (\w+);$", (PYTHON / "bundle.map").read_text(), re.M)
    assert sorted(called) == exported


@pytest.mark.parametrize("value, up, ms", [(30, False, 30000), (0.07, True, 70),
                                           (0.0701, True, 71), (0.0709, False, 70)])
def test_seconds(value, up, ms):
    from redlock_quorum._values import to_ms
    assert to_ms(value, "it", up=up) == ms


@pytest.mark.parametrize("value", [10 ** 400, -10 ** 400, 1e300, float("inf"), float("nan")],
                         ids=["great", "small", "float", "infinite", "nan"])
def test_seconds_out_of_range(value):
    from redlock_quorum import BadInput
    from redlock_quorum._values import to_ms
    with pytest.raises(BadInput, match="it is"):  # no OverflowError
        to_ms(value, "it")
