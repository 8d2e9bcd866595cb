#!/usr/bin/env python3
"""Which version a tree says that it is (src/version.py): that of a release only in the release."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("src/version.py", "include/redlock/redlock.h", "debian/changelog")
ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
       **{f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}


def run(*words, **env):
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True,
                          env={**ENV, **env}).stdout.strip()


def version(tree, *form, **env):
    return run(tree / "src/version.py", *form, **env)


with_git = unittest.skipUnless(shutil.which("git"), "there is no git")


class Version(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = pathlib.Path(scratch.name) / "tree"
        for name in FILES:
            (self.tree / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, self.tree / name)
        header = (self.tree / FILES[1]).read_text()
        self.number = header.partition('REDLOCK_VERSION        "')[2].partition('"')[0]

    def git(self, *words):
        return run("git", "-C", self.tree, *words)

    def commit(self):
        """Its first seven digits."""
        if not (self.tree / ".git").exists():
            self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a commit")
        return self.git("rev-parse", "HEAD")[:7]

    def expect(self, suffix, **more):
        self.assertEqual(version(self.tree, **more), self.number + suffix)

    def test_without_git(self):
        self.expect("-dev")
        self.assertEqual(version(self.tree, "--python"), f"{self.number}.dev0")
        self.assertEqual(version(self.tree, "--debian"), f"{self.number}~dev")

    @with_git
    def test_a_commit(self):
        first = self.commit()
        self.expect(f"-dev+g{first}")
        self.assertEqual(version(self.tree, "--python"), f"{self.number}.dev0+g{first}")
        self.assertEqual(version(self.tree, "--debian"), f"{self.number}~dev+g{first}")
        second = self.commit()
        self.assertNotEqual(first, second)
        self.expect(f"-dev+g{second}")

    @with_git
    def test_the_release(self):
        commit = self.commit()
        self.git("tag", "v0.0.1")
        self.expect(f"-dev+g{commit}")
        self.git("tag", f"v{self.number}")
        for form in "", "--python", "--debian":
            self.assertEqual(version(self.tree, *form.split()), self.number)
        (self.tree / FILES[1]).write_text((self.tree / FILES[1]).read_text() + "\n")
        self.expect(f"-dev+g{commit}")
        self.expect(f"-dev+g{self.commit()}")

    @with_git
    def test_an_archive(self):
        self.commit()
        expected = version(self.tree)
        unpacked = self.tree.parent / "unpacked"
        shutil.copytree(self.tree, unpacked, ignore=shutil.ignore_patterns(".git"))
        run(self.tree / "src/version.py", "--dist", MESON_PROJECT_DIST_ROOT=str(unpacked))
        self.tree = unpacked
        self.expect(expected.removeprefix(self.number))
        line = (unpacked / FILES[2]).read_text().splitlines()[0]
        self.assertIn(f"({version(unpacked, '--debian')})", line)
        self.commit()  # of who unpacked it
        self.expect(expected.removeprefix(self.number))

    @with_git
    def test_in_another_repository(self):
        inner = self.tree
        self.tree = inner.parent
        self.commit()
        self.tree = inner
        self.expect("-dev")

    @with_git
    def test_a_worktree(self):
        commit = self.commit()
        other = self.tree.parent / "other"
        self.git("worktree", "add", "-q", other)
        self.tree = other
        self.expect(f"-dev+g{commit}")

    @with_git
    def test_of_another_user(self):
        commit = self.commit()
        other = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # git's own tests set it
        with self.assertRaises(subprocess.CalledProcessError):
            run("git", "-C", self.tree, "log", **other)
        self.expect(f"-dev+g{commit}", **other)

    @with_git
    def test_without_the_program(self):
        self.commit()
        folder = self.tree.parent / "bin"
        folder.mkdir()
        for name in "env", "python3":
            (folder / name).symlink_to(shutil.which(name))
        self.expect("-dev", PATH=str(folder))


if __name__ == "__main__":
    unittest.main()
