#!/usr/bin/env python3
"""The shells complete every command and every option of the help texts. Speaks TAP."""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPLETION = ROOT / "contrib/completion"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "test/cli"))
import lab  # noqa: E402
from lab import case, check, equal  # noqa: E402

# Completes each line of stdin, and prints the candidates and an empty line.
BASH = """
source %s/redlock.bash
compopt() { :; } # works only in a completion
while IFS= read -r line; do
  COMPREPLY=()
  read -ra COMP_WORDS <<<"$line"
  [[ $line != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _redlock redlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  printf '%%s\\n' "${COMPREPLY[@]}" ''
done
"""
FISH = """
source %s/redlock.fish
while read -l line
    complete -C $line | cut -f1
    echo
end
"""
# Read by an interactive zsh: a tab writes the candidates of the present line to the file.
ZSH = """
fpath=(%s $fpath)
autoload -U compinit
compinit -u -D
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return; fi
  local -a hits
  builtin compadd -A hits "$@"
  (($#hits)) && print -l -- $hits >>$CANDIDATES
}
candidates() { _main_complete; print >>$CANDIDATES; compstate[insert]= compstate[list]= }
zle -C candidates complete-word candidates
bindkey '^I' candidates
zstyle ':completion:*' completer _complete
PS1='ready> '
"""


def options_of(*command):
    """The options that the help text lists."""
    text = lab.redlock(*command, "--help").out
    found = re.findall(r"^(?:  (-\w), |      )(--[a-z-]+)", text, re.MULTILINE)
    return {option for pair in found for option in pair if option}


def commands():
    text = lab.redlock("--help").out.split("Commands:\n")[1].split("\n\n")[0]
    return set(re.findall(r"^  (\w+) ", text, re.MULTILINE))


def environment():
    """With the command in the PATH."""
    folder = pathlib.Path(lab.temporary("bin"))
    folder.mkdir()
    (folder / "redlock").symlink_to(lab.program)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


def sets(text):
    return [set(part.split("\n")) - {""} for part in re.split(r"(?<=\n)\n|^\n", text)][:-1]


def through_stdin(words, lines):
    done = subprocess.run(words, input="".join(f"{line}\n" for line in lines), text=True,
                          env=environment(), cwd=COMPLETION, timeout=lab.CASE_SECONDS,
                          capture_output=True, check=False)
    equal(done.stderr, "", "the shell complains")
    return sets(done.stdout)


def in_bash(lines):
    return through_stdin(["bash", "--norc", "-c", BASH % COMPLETION], lines)


def in_fish(lines):
    return through_stdin(["fish", "--no-config", "-c", FISH % COMPLETION], lines)


def in_zsh(lines):
    """A widget for completion needs a terminal."""
    script, candidates = lab.write(lab.temporary("rc"), ZSH % COMPLETION), lab.temporary("out")
    pathlib.Path(candidates).touch()
    ours, theirs = pty.openpty()
    shell = lab.spawn(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
                      start_new_session=True, cwd=COMPLETION,
                      env={**environment(), "CANDIDATES": candidates, "TERM": "dumb"})
    os.close(theirs)
    shown = b""

    def text():
        with open(candidates, encoding="utf-8") as file:
            return file.read()

    def see():
        nonlocal shown
        shown += os.read(ours, 4096)
        return b"ready> " in shown

    try:
        os.write(ours, f"source {script}\n".encode())
        lab.wait_for(see, "a prompt of zsh")
        for number, line in enumerate(lines, 1):
            os.write(ours, line.encode() + b"\t")
            lab.wait_for(lambda: len(sets(text() + "\n")) > number, f"completion of {line}")
            os.write(ours, b"\x15")
        return sets(text())
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def has_all(complete):
    lines = ["redlock ", "redlock -", *(f"redlock {command} -" for command in sorted(commands())),
             *(f"redlock {command} --" for command in sorted(commands()))]
    found = dict(zip(lines, complete(lines), strict=True))
    equal(found["redlock "], commands(), "the commands")
    for command in ("", *sorted(commands())):
        words = [command] if command else []
        line = " ".join(["redlock", *words, "-"])
        got = found[line] | found.get(line + "-", set())
        check(got >= options_of(*words), f"{line}: no {options_of(*words) - got}")
        equal({word for word in got if re.match("-.", word)}, options_of(*words), line)


def has_values(complete):
    wanted = {
        "redlock run --color ": {"auto", "always", "never"},
        "redlock acquire --token-file redlock.b": {"redlock.bash"},
        "redlock -N unix:/a,unix:/b relea": {"release"},
        "redlock run -t 3s k basenam": {"basename"},
        "redlock acquire -t ": set(),
    }
    equal(dict(zip(wanted, complete(list(wanted)), strict=True)), wanted, "the candidates")


def add_cases(shell, complete):
    @case(f"{shell}: every command and option")
    def _():
        has_all(complete)

    @case(f"{shell}: values and operands")
    def _():
        has_values(complete)


for name, function in {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}.items():
    if shutil.which(name):
        add_cases(name, function)
lab.main(servers=0)
