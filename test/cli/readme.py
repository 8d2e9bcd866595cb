"""The lines of README.md that a reader types into a shell of `redlock local`."""
import os
import re
import tempfile

import lab
from lab import case, equal
from readme_lines import lines_to_type, session_lines

# The job of the first line lasts until the last line wants the lock, on any machine.
JOB, LASTS = "sleep 3", "sh -c 'until [ -e ended ]; do sleep 0.05; done'"
IS_HELD = "until redlock status backup | grep -q 'held by .* on 5 of 5'; do sleep 0.05; done"
SCRIPTS = ("backup.sh", "job", "transfer", "report", "scheduler")


def shell(lines):
    """Runs them in order on five new nodes; each script that they name does nothing."""
    folder = tempfile.mkdtemp(dir=lab.folder)
    for name in SCRIPTS:
        lab.write(os.path.join(folder, name), "#!/bin/sh\n", 0o700)
    script = lab.write(os.path.join(folder, "lines"), "\n".join(lines) + "\n")
    config = lab.write(os.path.join(folder, "patience"), f"timeout = {lab.PATIENCE}\n")
    path = f"{os.path.dirname(lab.program)}:{os.environ['PATH']}"
    return lab.finish(lab.start("local", "-n", "5", "--", "bash", script, cwd=folder,
                                env={"PATH": path, "REDLOCK_CONFIG": config}))


@case("the first lines: one of two has the lock, and also on three of five nodes")
def _():
    first, *middle, last = session_lines()
    assert JOB in first
    done = shell([first.replace(JOB, LASTS), IS_HELD, *middle, "touch ended",
                  last.replace("-w 5s", "-w 2m")])
    out = re.sub(r"\d+\.\d+ s|\S+:\d+$", "...", done.expect(0).out, flags=re.MULTILINE)
    *rows, whole, refused, mine, last_exit = out.splitlines()
    equal([re.sub(r" +", " ", row).split(" ", 1)[1] for row in rows], ["held ... ..."] * 5, out)
    equal(re.sub(r"by \S+ on", "by ... on", whole),
          "backup: held by ... on 5 of 5 nodes, for another ...", out)
    equal([refused, mine, last_exit], ["exit 75", "mine, on three of five", "exit 0"], out)


@case("each line of the overview")
def _():
    lines = lines_to_type("Sixty seconds", "redlock bench")
    wanted = [f"exit {'[01]' if line.startswith('redlock check') else 0}" for line in lines]
    instead = {"redlock bench": "redlock bench -n 100 --warmup 0",
               "redlock monitor": "redlock monitor --listen unix:page &"
               " until [ -S page ]; do sleep 0.05; done; kill $!; wait $!"}
    for words, others in instead.items():
        lines = [line.replace(words, others) for line in lines]
    done = shell([f'{line}\necho "exit $?"' for line in lines])
    found = [line for line in done.out.splitlines() if line.startswith("exit ")]
    for line, pattern, code in zip(lines, wanted, found, strict=True):
        lab.matches(code, f"^{pattern}$", line)


lab.main(0)
