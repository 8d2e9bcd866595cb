#!/usr/bin/env python3
"""Projects of other people build with an installed library, and take a lock. Speaks TAP.

usage: install.py REDLOCK BUILD; REDLOCK is the command, BUILD the folder that is installed.
"""
import functools
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = sys.argv.pop(2)
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "test"), str(ROOT / "test/cli")]
import lab  # noqa: E402
from installed import install  # noqa: E402
from lab import case, check, equal  # noqa: E402

HELD = "held by the event loop, on 5 nodes\nheld by a thread, on 5 nodes\n"
HELD_CPP = "held by a guard, on 5 nodes\n"


@functools.cache
def installed():
    return install(BUILD, lab.temporary("installed"))


def call(*words, **more):
    """Runs it with the installed library; returns what it prints."""
    done = subprocess.run([str(word) for word in words], env=installed()[1], text=True,
                          capture_output=True, timeout=lab.END_SECONDS, check=False, **more)
    check(done.returncode == 0, f"exit {done.returncode} of {words}: {done.stdout}{done.stderr}")
    return done.stdout


def project(*names):
    """A folder with these files of this one."""
    folder = pathlib.Path(lab.temporary("project"))
    folder.mkdir()
    for name in names:
        shutil.copy(HERE / name, folder)
    return folder


def flags(*options):
    return call("pkg-config", *options, "--cflags", "--libs", "redlock").split()


def needs(program):
    """The shared libraries that a program names."""
    shown = call("readelf", "-d", program)
    return {line.split("[")[1].rstrip("]") for line in shown.splitlines() if "NEEDED" in line}


@case("C by pkg-config, with the shared library")
def shared(quorum):
    folder = project("hold.c")
    call("cc", "hold.c", "-o", "hold", *flags(), cwd=folder)
    check("libredlock.so.1" in needs(folder / "hold"), "it has another SONAME")
    equal(call(folder / "hold", *quorum.uris), HELD, "it prints")


@case("C by pkg-config --static, all libraries static")
def static(quorum):
    folder = project("hold.c")
    call("cc", "-static", "hold.c", "-o", "hold", *flags("--static"), cwd=folder)
    equal(needs(folder / "hold"), set(), "it needs")
    equal(call(folder / "hold", *quorum.uris), HELD, "it prints")


@case("C++ by pkg-config")
def cpp(quorum):
    folder = project("hold.cpp")
    call("c++", "-std=c++17", "hold.cpp", "-o", "hold", *flags(), cwd=folder)
    equal(call(folder / "hold", *quorum.uris), HELD_CPP, "it prints")


def by_cmake(quorum, *options):
    folder = project("CMakeLists.txt", "hold.c", "hold.cpp")
    call("cmake", "-G", "Ninja", "-B", "build", *options, cwd=folder)
    call("cmake", "--build", "build", cwd=folder)
    equal(call(folder / "build/hold_c", *quorum.uris), HELD, "the C program prints")
    equal(call(folder / "build/hold_cpp", *quorum.uris), HELD_CPP, "the C++ program prints")
    return needs(folder / "build/hold_c")


@case("CMake by find_package")
def cmake(quorum):
    check("libredlock.so.1" in by_cmake(quorum), "it has another SONAME")


@case("CMake by find_package, with the static library")
def cmake_static(quorum):
    library = installed()[0] / "libredlock.a"
    check("libredlock.so.1" not in by_cmake(quorum, f"-DREDLOCK_LIBRARY={library}"),
          "it has the shared library")


@case("CMake: another major version is refused")
def cmake_version(_):
    folder = project("CMakeLists.txt", "hold.c", "hold.cpp")
    text = (folder / "CMakeLists.txt").read_text()
    (folder / "CMakeLists.txt").write_text(text.replace("redlock 1.0", "redlock 0.2"))
    done = subprocess.run(["cmake", "-G", "Ninja", "-B", "build"], cwd=folder, env=installed()[1],
                          capture_output=True, text=True, check=False)
    check(done.returncode != 0 and "1.0.0" in done.stderr, done.stderr)


@case("a meson project with the library in subprojects/")
def subproject(quorum):
    folder = project("superproject/meson.build", "hold.c")
    (folder / "subprojects").mkdir()
    (folder / "subprojects/redlock").symlink_to(ROOT)
    call("meson", "setup", "--buildtype=plain", "-Dredlock:cli=disabled", "build", cwd=folder)
    log = (folder / "build/meson-logs/meson-log.txt").read_text()
    check("hiredis" in log and "jansson" not in log, "without the command it needs jansson")
    call("ninja", "-C", "build", "hold", cwd=folder)
    equal(call(folder / "build/hold", *quorum.uris), HELD, "it prints")


@functools.cache
def moved():
    """A build as README's, which was installed for a prefix of its own, and then moved."""
    build, prefix = lab.temporary("lto"), pathlib.Path(lab.temporary("prefix"))
    call("meson", "setup", "-Doptimization=1", "-Db_lto=true", "-Dtests=false", "-Dman=disabled",
         "--libdir=lib", f"--prefix={prefix}", build, ROOT)
    call("ninja", "-C", build)
    call("meson", "install", "-C", build, "--quiet")
    return prefix.rename(lab.temporary("moved"))


@case("a private prefix that was moved: the command finds its library; CMake does, too")
def private_prefix(quorum):
    place = moved()
    shown = subprocess.run(["env", "-i", place / "bin/redlock", "--version"], capture_output=True,
                           text=True, check=False)
    check(shown.returncode == 0, f"exit {shown.returncode}: {shown.stderr}")
    by_cmake(quorum, f"-Dredlock_DIR={place}/lib/cmake/redlock", f"-DCMAKE_BUILD_RPATH={place}/lib")


@case("the static library of a build with LTO links by gcc and clang, without -flto")
def static_lto(quorum):
    place = moved()
    for compiler in ("gcc", "clang"):
        folder = project("hold.c")
        call(compiler, "hold.c", "-o", "hold", f"-I{place}/include", place / "lib/libredlock.a",
             "-fno-lto", "-lhiredis", "-levent_extra", "-levent_core", "-lpthread", "-ldl", cwd=folder)
        check("libredlock.so.1" not in needs(folder / "hold"), "it has the shared library")
        equal(call(folder / "hold", *quorum.uris), HELD, "it prints")


@case("one version everywhere")
def version(_):
    found = call("pkg-config", "--modversion", "redlock").strip()
    whole = call(ROOT / "src/version.py").strip()
    equal(lab.redlock("--version").out, f"redlock {whole}\n", "the version of the command")
    equal(whole.partition("-dev")[0], found, "the number of the command's version")
    header = (ROOT / "include/redlock/redlock.h").read_text()
    major, minor, patch = map(int, found.split("."))
    for macro in (f'REDLOCK_VERSION        "{found}"',
                  f"REDLOCK_VERSION_NUMBER {10000 * major + 100 * minor + patch}"):
        check(f"#define {macro}\n" in header, f"redlock.h does not define {macro}")


lab.main()
