"""Installs a build of the library into a temporary folder, for tests."""
import os
import pathlib
import subprocess
import sys

PREFIX = "usr/local"


def install(build, folder):
    """Returns the folder of the library, and the environment in which programs find it."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet",
                    "--destdir", folder], check=True, stdout=sys.stderr)
    [description] = pathlib.Path(folder).rglob("redlock.pc")
    text = description.read_text()
    if f"/{PREFIX}" not in text:
        sys.exit(f"{description} does not name /{PREFIX}")
    description.write_text(text.replace(f"/{PREFIX}", f"{folder}/{PREFIX}"))
    library = description.parent.parent
    return library, {**os.environ, "PKG_CONFIG_PATH": str(description.parent),
                     # CMake of Debian does not search lib64, where it may be.
                     "redlock_DIR": str(library / "cmake/redlock"),
                     "LD_LIBRARY_PATH": str(library)}
