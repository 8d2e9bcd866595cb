#!/usr/bin/env python3
"""docs/guide on real servers: its files are what its pages show, and do what its pages say."""
import os
import pathlib
import re
import shutil
import signal
import time

import lab
import processes
from lab import case, check, equal, matches, on, redlock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GUIDE = ROOT / "docs" / "guide"
BUILT = pathlib.Path(os.environ["EXAMPLES"]).parent / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
SERVICES = ("uv", "glib", "asio", "await")  # of loops.md
LINKED = {"glib.cpp": "loops.md", "asio.cpp": "loops.md", "redlock_pipe.rb": "ruby.md"}  # not shown
LINES_MOST = {"lock_thread.hpp": 119, "redlock_pipe.rb": 179,
              **{f"{name}.cpp": 89 for name in SERVICES}}  # others: 59
TTL = "10m"  # longer than any case takes
SHOWN = re.compile(r"\[([^\]]+)\]\(\1\):\n\n```\w+\n(.*?)^```$", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
END = "\1\n"  # after the output of each command

# What differs from run to run, as the pages write it.
VARIABLE = (
    (r"vm:8423", r"[^ ]+:\\d+"),  # host:pid
    (r"\b\d{16}\b", r"\\d{16}"),  # a fencing token
    (r"\b20417\b", r"\\d+"),  # a period
    (r"(29\\\.9\\ s|10\\ min)\\ unless", r"[^:]+ unless"),  # what is left of a TTL
    (r"on\\ device\\ 2", r"on device [123]"),
    (r"^Runtime\\ error\\ near\\ line\\ \d+:(.*)\\ \\\(19\\\)$", r".*\1.*"),
)


# --- a folder with the guide, in which its lines run ---

class Place:
    def __init__(self, quorum):
        self.quorum = quorum
        top = pathlib.Path(lab.temporary("project"))
        self.guide = top / "docs" / "guide"
        shutil.copytree(GUIDE, self.guide)
        (top / "contrib").symlink_to(ROOT / "contrib")
        for name in built():
            (self.guide / name).symlink_to(BUILT / name)
        self.programs = top / "programs"
        self.programs.mkdir()
        (self.programs / "redlock").symlink_to(lab.program)
        self.path = f"{self.programs}:{os.environ['PATH']}"

    def environment(self, **more):
        more = {"REDLOCK_TTL": TTL, **more}
        return lab.environment(on(self.quorum, PATH=self.path,
                                  REDLOCK_LOCAL_DIR=self.quorum.home, **more))

    def start(self, *words, **more):
        return lab.spawn(words, cwd=self.guide, env=self.environment(**more),
                         stdin=lab.subprocess.DEVNULL, stdout=lab.subprocess.PIPE,
                         stderr=lab.subprocess.STDOUT)

    def bash(self, script, **more):
        """The output, stderr too, of a script that ends with 0."""
        done = lab.finish(self.start("bash", "-c", script, **more))
        done.expect(0)
        return done.out


def built():
    return [name for name in ("cache", "pool", "shop", *SERVICES) if (BUILT / name).exists()]


# Lines of loops.md, each after a second without the lock: only on a slow machine.
MAY_COME = "waiting"


def pattern(line):
    found = re.escape(line)
    for shown, variable in VARIABLE:
        found = re.sub(shown, variable, found)
    return found


def commands(page):
    """[the command, the lines that it prints] of the blocks of a page."""
    found = []
    for line in "".join(CONSOLE.findall(lab.read(GUIDE / page))).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    check(found, f"{page} shows no command")
    return found


def run_page(page, quorum):
    """Runs its lines in one shell, and compares what each of them prints."""
    place, lines = Place(quorum), commands(page)
    script = "".join(f"{command}\nprintf '\\1\\n'\n" for command, _ in lines)
    printed = place.bash(script).split(END)
    equal(len(printed), len(lines) + 1, f"commands of {page} that ended")
    for (command, wanted), got in zip(lines, printed):
        got = [line for line in got.splitlines() if line != MAY_COME]
        same = len(got) == len(wanted) and all(
            re.fullmatch(pattern(one), other) for one, other in zip(wanted, got))
        check(same, f"{page}: {command}\nprints {got}\ninstead of {wanted}")
    return place


def is_missing(*programs):
    """One of them is not installed; if so, says it."""
    lacking = [name for name in programs if not shutil.which(name)]
    if lacking:
        lab.say(f"not run: there is no {', '.join(lacking)}")
    return bool(lacking)


def admit(quorum):
    redlock("admit", "--new", "--at-once", "--max-ttl", TTL, *lab.PATIENT,
            env=on(quorum)).expect(0)


def children(pid):
    return [one for one in lab.marked() if processes.state_and_parent(one)[1] == pid]


def day():
    return int(time.time()) // 86400


def in_one_day(run, quorum):
    """Runs it again if a period of a day has ended meanwhile."""
    while True:
        begun = day()
        try:
            return run(quorum)
        except lab.Failed:
            if day() == begun:
                raise
            quorum.reset()


# --- the pages ---

@case("each file is shown by one page, as it is, or linked; and is short")
def _(_quorum):
    shown = [one for page in PAGES for one in SHOWN.findall(lab.read(page))]
    files = [path.name for path in GUIDE.iterdir() if path.suffix not in (".md", ".build")]
    equal(sorted(name for name, _ in shown), sorted({*files} - LINKED.keys()), "files that are shown")
    for name, page in LINKED.items():
        check(f"]({name})" in lab.read(GUIDE / page), f"{page} has no link to {name}")
    for name, text in shown:
        equal(text, lab.read(GUIDE / name), name)
    for name in files:
        lines = lab.read(GUIDE / name).count("\n")
        check(lines <= LINES_MOST.get(name, 59), f"{name} has {lines} lines")


@case("redlock local starts as many servers as this test has")
def _(quorum):
    done = redlock("local", "--", "sh", "-c", "echo $REDLOCK_NODES")
    done.expect(0)
    equal(done.out.count(","), quorum.nodes.count(","), "commas between nodes")


@case("the index names each page; links between pages have targets")
def _(_quorum):
    index = lab.read(GUIDE / "README.md")
    check("guide/README.md" in lab.read(ROOT / "docs" / "README.md"), "docs/README.md lacks it")
    for page in PAGES:
        text = lab.read(page)
        check(page.name == "README.md" or f"]({page.name})" in index, f"{page.name} is in no index")
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", BLOCK.sub("", text)):
            check((GUIDE / target).exists(), f"{page.name}: nothing is at {target}")


def run_cron(quorum):
    place = run_page("cron.md", quorum)
    lines = [re.search(r"redlock (run .*) report\.sh (\S+)", lab.read(GUIDE / name))
             for name in ("report.cron", "report.service")]
    equal(lines[0][0], lines[1][0], "the line of both")
    quorum.reset()
    place.bash(2 * f"redlock {lines[0][1]} ./report.sh reports || exit; ")
    equal(len(os.listdir(place.guide / "reports")), 1, "reports")


@case("cron: one run in the period; the crontab and the service run the same line")
def _(quorum):
    in_one_day(run_cron, quorum)


@case("election: each leader has a larger term, and an old one is refused; an observer")
def _(quorum):
    admit(quorum)
    place = run_page("election.md", quorum)
    observer = lab.start("elect", *lab.PATIENT, "--observe", "scheduler", env=on(quorum))
    matches(observer.stdout.readline().decode(), "Z scheduler: nobody leads\n", "the observer")
    leader = place.start("redlock", "elect", "--label", "host-a", "scheduler", "--", "./leader.sh",
                         quorum[0].path)
    shown = re.search("^    .*Z (.*host-a leads.*)$", lab.read(GUIDE / "election.md"), re.M)[1]
    matches(observer.stdout.readline().decode(), f"Z {pattern(shown)}\n", "the observer")
    leader.send_signal(signal.SIGTERM)
    lab.finish(leader).expect(143)
    matches(observer.stdout.readline().decode(), "Z scheduler: nobody leads\n", "the observer")
    observer.send_signal(signal.SIGTERM)
    lab.finish(observer).expect(143)


@case("election: leader.sh where Debian's package installs it")
def _(quorum):
    place = Place(quorum)
    docs = place.guide.parent
    (docs.parent / "contrib").unlink()
    (docs / "examples").symlink_to(ROOT / "contrib")
    written = place.bash("./leader.sh $REDLOCK_LOCAL_DIR/1.sock 1", REDLOCK_TERM="1")
    equal(written, "term 1: step 1\n", "it writes")


@case("inventory: each item is sold once, and a late write is refused")
def _(quorum):
    if "shop" not in built():
        lab.say("not built: there is no C++ compiler")
        return
    admit(quorum)
    run_page("inventory.md", quorum)


@case("transaction: committed or rolled back as a whole")
def _(quorum):
    if is_missing("sqlite3"):
        return
    admit(quorum)
    place = run_page("transaction.md", quorum)
    for words in ("alice carol 5", "alice bob -5", "alice bob 1;", "x' bob 5"):
        process = place.start("./transfer.sh", "bank.db", *words.split(), REDLOCK_FENCE="9" * 15)
        check(lab.finish(process).code != 0, words)
    equal(place.bash("sqlite3 bank.db 'SELECT balance FROM account'"), "70\n30\n", "balances")


@case("cache: of three processes one makes the page, and again after a change of the source")
def _(quorum):
    place = run_page("cache.md", quorum)
    again = place.bash("echo 'a new page' > source; ./cache source page ${REDLOCK_NODES//,/ } && "
                       "./cache source page ${REDLOCK_NODES//,/ }; cat page; ls page*")
    equal(again, "made\nfound\na new page\npage\n", "after a change")


@case("pool: no device has two jobs")
def _(quorum):
    run_page("pool.md", quorum)


@case("workers: each task is done once; if a worker dies, another one does its task")
def _(quorum):
    place = run_page("workers.md", quorum)
    todo, end = place.guide / "work" / "todo", lab.temporary("end")
    (todo / "5").write_text(f"echo > {end}.begun; until test -e {end}; do sleep 0.05; done\n"
                            "echo result 5\n")
    worker = place.start("./worker.sh", "work", REDLOCK_TTL="1s")
    lab.wait_for(lambda: os.path.exists(f"{end}.begun"), "a task that is being done")
    [child] = children(worker.pid)
    worker.kill()
    worker.wait()
    os.kill(child, signal.SIGKILL)
    lab.nothing_is_left()
    lab.write(end, "")
    equal(place.bash("./worker.sh work", REDLOCK_TTL="1s"), "5: done\n", "the other worker")
    equal(lab.read(place.guide / "work" / "done" / "5"), "result 5\n", "its result")
    check(not list(todo.iterdir()), "a task is left")


@case("migration: one host migrates, the other finds it done; a wrong one is rolled back")
def _(quorum):
    if is_missing("sqlite3"):
        return
    place = run_page("migration.md", quorum)
    applied = place.bash("cp migrations/001-items.sql migrations/0010-again.sql; "
                         "redlock run migrate:shop -- ./migrate.sh shop.db migrations; "
                         "sqlite3 shop.db 'SELECT group_concat(version) FROM schema_version'; ")
    check("0010-again.sql: rolled back\n1,2,3\n" in applied, applied)


@case("migration: a file that leaves its transaction open is rolled back; wrong folders")
def _(quorum):
    if is_missing("sqlite3"):
        return
    place = Place(quorum)
    folder = place.guide / "migrations"

    def deploy():
        return lab.finish(place.start("redlock", "run", "migrate:shop", "--", "sh", "migrate.sh",
                                      "shop.db", "migrations"))

    folder.mkdir()
    for text in ("CREATE TABLE item (name TEXT); -- done", "CREATE TABLE item (name TEXT); /* open",
                 "CREATE TABLE item (name TEXT);\n.quit\n", "ROLLBACK; BEGIN;\n"):
        (folder / "001-items.sql").write_text(text)
        done = deploy()
        equal((done.code, done.out.splitlines()[-1:]), (1, ["001-items.sql: rolled back"]), text)
        equal(place.bash("sqlite3 shop.db .tables"), "schema_version\n", text)
    (folder / "001-items.sql").rename(folder / "000-items.sql")
    done = deploy()
    check(done.code != 0 and "numbers begin at 1" in done.out, done.out)
    (folder / "000-items.sql").unlink()
    deploy().expect(1, out="migrations has no migration\n")
    folder.rmdir()
    deploy().expect(1, out="migrations has no migration\n")


@case("loops: each service works, and releases")
def _(quorum):
    lacking = set(SERVICES) - set(built())
    if lacking:
        raise lab.Skipped(f"not built: {', '.join(sorted(lacking))}")
    run_page("loops.md", quorum)


@case("rate: so many runs in a period, and no more")
def _(quorum):
    in_one_day(lambda quorum: run_page("rate.md", quorum), quorum)


@case("ruby: each is reminded once, by one program at a time; a program or its pipe dies")
def _(quorum):
    if is_missing("ruby"):
        return
    place = run_page("ruby.md", quorum)
    place.bash("""ruby -r./redlock_pipe -e '
      Redlock.new.lock("reminders") { Process.kill(:KILL, $$) }
    '; redlock run -w 1m reminders -- true""")  # its TTL is longer: it was released
    code = place.bash("""ruby -r./redlock_pipe -e '
      begin
        Redlock.new.lock("k") do |hold|
          Process.kill(:KILL, File.read("/proc/self/task/#{$$}/children").to_i)
          loop { sleep(0.01) && hold.check }
        end
      rescue Redlock::Error => error
        puts error.code
      end'""")
    equal(code, "PIPE\n", "after the death of the pipe")


@case("flock: a script that locks itself")
def _(quorum):
    if is_missing("tar"):
        return
    place = run_page("flock.md", quorum)
    before = sorted(os.listdir(place.guide))
    begun = lab.temporary("begun")
    slow = place.programs / "tar"
    slow.write_text(f"#!/bin/sh\n: > {begun}; sleep 60\n")
    slow.chmod(0o755)
    script = place.start("./backup.sh", "data", "data.tar")
    lab.wait_for(lambda: os.path.exists(begun), "an archive that is being written")
    script.send_signal(signal.SIGTERM)
    lab.finish(script).expect(143)
    equal(sorted(os.listdir(place.guide)), before, "files after TERM")


@case("moving: a lock of an old client excludes, and is excluded")
def _(quorum):
    place = run_page("moving.md", quorum)
    quorum.occupy("k", (0, 1, 2))
    process = place.start("./old-client.sh", "lock", "k", "token")
    lab.finish(process).expect(1, out="lock k: 2 of 5 nodes agree\n")
    equal(quorum.values("k"), [*3 * ["foreign"], None, None], "what is left")


if __name__ == "__main__":
    lab.main()
