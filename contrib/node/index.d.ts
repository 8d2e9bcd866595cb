export interface RedlockConfig {
  /** URIs of the nodes. Without them those of REDLOCK_NODES or redlock.conf(5). */
  nodes?: string[];
  /** A file to read in place of redlock.conf(5), as REDLOCK_CONFIG. */
  config?: string;
  /** Options of redlock(1) that stand before `pipe`. ps(1) shows them. */
  args?: string[];
  /** The program `redlock`. Without it REDLOCK_COMMAND, that of this package, or PATH. */
  command?: string;
}

export interface LockOptions {
  /** `exclusive` if it is not given. */
  kind?: "exclusive" | "shared" | "slot" | "election" | "redisson";
  /** How many hold a semaphore at most; `kind` is `slot` then. */
  slots?: number;
  /** True: a fenced lock. */
  fence?: boolean;
  /** How long the nodes keep it after the last extension. 30000 if nothing configures it. */
  ttlMs?: number;
  /** How long to wait for it; 0: one attempt. No limit if nothing configures it. */
  waitMs?: number;
  /** The lock is lost after so long. */
  maxHoldMs?: number;
  /** If no beat() or extend() comes for so long, it is not extended until the next one. */
  beatMs?: number;
  /** Ends the wait for the lock; `using` rejects with its reason. Later it does nothing. */
  signal?: AbortSignal;
}

export interface Hold {
  /** Rises with each holder of a fenced lock, otherwise null. Give it to the resource. */
  readonly fence: number | null;
  /** The slot of a semaphore, otherwise null. */
  readonly slot: number | null;
  /** Nobody else has the lock now. It reads the clock: ask before what cannot be undone. */
  valid(): boolean;
  /** Extends it now, by a TTL that stays. Without this it is extended until `work` is done. */
  extend(ttlMs: number): Promise<void>;
  /** Says that the work goes on, to a lock with `beatMs`. */
  beat(): Promise<void>;
}

/** What each node replied, as with `redlock --json`. */
export type NodeReply = Record<string, unknown>;

export class RedlockError extends Error {
  /** A name of redlock.h without its prefix: "TAKEN", "TIMEOUT", "NO_QUORUM", "EXPIRED" ... */
  readonly code: string;
  /** The cause, where a code has several: "SILENT", "PASSWORD" ... or "NONE". */
  readonly reason: string;
  /** Who has the lock, if that is known. */
  readonly holder: string | null;
  readonly nodes: NodeReply[];
}

/** One for a process: it has one `redlock pipe`, which is started when it is first needed. */
export class Redlock {
  constructor(config?: RedlockConfig);

  /**
   * Calls `work` under the lock of a key, or of up to 16 keys, and releases the lock when
   * `work` has returned. `signal` aborts when the lock is lost; its reason is a RedlockError.
   * Resolves to what `work` returned. Rejects if the lock was not acquired, with what `work`
   * threw, or if the lock was lost before `work` returned: then another owner may have worked
   * at the same time.
   */
  using<T>(
    keys: string | string[],
    work: (signal: AbortSignal, hold: Hold) => T | Promise<T>,
  ): Promise<T>;
  using<T>(
    keys: string | string[],
    options: LockOptions,
    work: (signal: AbortSignal, hold: Hold) => T | Promise<T>,
  ): Promise<T>;
}
