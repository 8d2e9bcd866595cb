"""What happens where Redisson's other locks use a key that this library locks.

docs/kinds.md says which of them exclude it and which do not; each of its sentences has a case.
"""
import subprocess

import lab


class Java:
    def __init__(self, words, env):
        self.process = lab.spawn(words, env=lab.environment(env), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        lab.equal(self.process.stdout.readline().strip(), "ready", "what Redisson's side says")

    def __call__(self, what, key):
        self.process.stdin.write(f"{what} {key}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        lab.equal(self.process.wait(lab.END_SECONDS), 0, "exit code of Redisson's side")


def held(key, *words, env):
    """A token file of a lock that is held for a minute."""
    path = lab.temporary("token")
    lab.redlock("acquire", "-t", "60s", "--timeout", "5s", "--token-file", path, *words, key,
                env=env).expect(0)
    return path


def extends(key, path, env):
    """The exit code of an extension."""
    return lab.redlock("extend", "--timeout", "5s", "--token-file", path, key, env=env).code


def combine(quorum, java, env):
    """Yields the name of a case, and whether it is as docs/kinds.md says."""
    count = str(len(quorum.servers))
    path = held("excluded", "--redisson", env=env)
    yield "an RLock is refused", java("lock", "excluded") == "0"
    yield "an RFairLock is refused", java("fair", "excluded") == "0"
    lab.redlock("release", "--token-file", path, "excluded", env=env).expect(0)
    yield "and has the lock when it tries again", java("fair", "excluded") == count

    yield "an RLock is entered twice", (java("lock", "java"), java("lock", "java")) == (count, count)
    seen = lab.redlock("status", "--json", "--timeout", "5s", "java", env=env).json()
    yield "status says so, and that each of Redisson's clients is another owner", \
        (seen["depth"], seen["state"], seen["held"]) == (2, "split", len(quorum.servers))
    for words in ((), ("--redisson",), ("--shared",)):
        code = lab.redlock("acquire", "-n", *words, "java", env=env).code
        yield f"acquire {' '.join(words)} is refused".replace("  ", " "), code == 75
    java("unlock", "java")
    yield "until it is unlocked twice", \
        (java("unlock", "java"), lab.redlock("status", "java", env=env).code) == (count, 1)

    for words in ((), ("--shared",)):
        name = "string" if not words else "shared"
        held(name, *words, env=env)
        yield f"an RLock throws at a {name} lock", "WRONGTYPE" in java("lock", name)

    path = held("write", "--redisson", env=env)
    yield "an RReadWriteLock takes the lock all the same", java("write", "write") == count
    path = held("faster", "--redisson", env=env)
    yield "a RedissonFasterMultiLock takes it all the same", java("faster", "faster") == count
    path = held("expire", "--redisson", env=env)
    java("expire", "expire")
    yield "a lease time cuts the lock", \
        all(0 < server.call("PTTL", "expire") < 1000 for server in quorum.servers)
    path = held("force", "--redisson", env=env)
    yield "forceUnlock deletes it", java("force", "force") == count
    yield "and its holder is told", extends("force", path, env) == 1
