// Package redlock locks on a majority of N independent Redis masters, by the command
// "redlock pipe", which it starts as a child process.
package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Config says how to start the command. With the zero value, the environment and
// /etc/redlock.conf name the nodes.
type Config struct {
	Nodes   []string // URIs; in the command's environment, as they may have passwords
	Command string   // default: REDLOCK_COMMAND, or the first "redlock" on PATH
	Args    []string // more options of the command, such as "--prefix", "shop:"
}

// Client starts one "redlock pipe" when it is first needed. A program needs one Client, which
// all goroutines share.
type Client struct {
	config Config
	mu     sync.Mutex
	pipe   *pipe
}

// New starts nothing yet.
func New(config Config) *Client { return &Client{config: config} }

// Close ends the pipe. Unlock first: what is held then stays locked until its deadline, or
// until the program exits.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipe != nil {
		c.pipe.end("the client was closed")
	}
}

// Try as Options.Wait makes one attempt.
const Try time.Duration = -1

// Options of one lock. The zero value is an exclusive lock with a TTL of 30 s.
type Options struct {
	And     []string      // up to 15 further keys, locked together with the first
	Kind    string        // "exclusive", "shared", "slot", "election" or "redisson"
	Slots   int           // how many hold a semaphore at most
	Fence   bool          // a fenced lock: see Hold.Fence
	TTL     time.Duration // how long the nodes keep the lock after its last extension
	Wait    time.Duration // how long to wait for the lock; 0: until ctx ends
	MaxHold time.Duration // the lock is lost after so long
	Beat    time.Duration // without a Beat or Extend for so long, it is not extended
}

func (o Options) request(key string) (map[string]any, error) {
	request := map[string]any{"op": "lock", "key": key}
	keys := append([]string{key}, o.And...)
	for _, one := range keys {
		if !utf8.ValidString(one) { // JSON would make another key of it
			return nil, &Error{Code: "BAD_KEY", Reason: "NONE", Text: "a key is not UTF-8"}
		}
	}
	if len(keys) > 1 {
		delete(request, "key")
		request["keys"] = keys
	}
	if o.Kind != "" {
		request["kind"] = o.Kind
	}
	if o.Slots != 0 {
		request["slots"] = o.Slots
	}
	if o.Fence {
		request["fence"] = true
	}
	times := map[string]time.Duration{
		"ttl_ms": o.TTL, "wait_ms": o.Wait, "max_hold_ms": o.MaxHold, "beat_ms": o.Beat}
	for member, d := range times {
		if d != 0 {
			request[member] = milliseconds(d)
		}
	}
	if o.Wait == Try {
		request["wait_ms"] = 0
	}
	return request, nil
}

// milliseconds rounds away from 0, which would be the default.
func milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -1 // refused as BAD_OPTION
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// Lock waits until it holds key. If ctx ends while it waits, it returns ctx.Err(), and what
// comes too late is unlocked. Otherwise the error is an *Error, or one that is ErrPipe.
func (c *Client) Lock(ctx context.Context, key string, options Options) (*Hold, error) {
	request, err := options.request(key)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	p, err := c.start()
	if err != nil {
		return nil, err
	}
	return p.lock(ctx, request)
}

// start returns the pipe that lives, or starts one.
func (c *Client) start() (*pipe, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipe != nil && !c.pipe.hasEnded() {
		return c.pipe, nil
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: it needs Linux, and this is %s", ErrPipe, runtime.GOOS)
	}
	name := "redlock"
	for _, one := range []string{os.Getenv("REDLOCK_COMMAND"), c.config.Command} {
		if one != "" {
			name = one
		}
	}
	words := append([]string{}, c.config.Args...)
	cmd := exec.Command(name, append(words, "pipe", "--parent", fmt.Sprint(os.Getpid()))...)
	if len(c.config.Nodes) > 0 {
		cmd.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(c.config.Nodes, ","))
	}
	p, err := newPipe(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrPipe, err)
	}
	c.pipe = p
	return p, nil
}

// Hold is a lock that is held, until Unlock or until it is lost.
type Hold struct {
	pipe   *pipe
	id     int64
	fence  int64
	slot   int
	ctx    context.Context
	cancel context.CancelFunc
	// Under pipe.mu:
	until    int64
	gone     bool // unlocked or lost
	unlocked bool
	lost     error
}

// Context is that of Lock, and is cancelled, too, when the lock is lost or unlocked. All work
// under the lock uses it.
func (h *Hold) Context() context.Context { return h.ctx }

// Err says why the lock was lost; nil: it was not. Look at it after Unlock, too: if it is not
// nil then, somebody else may have worked at the same time.
func (h *Hold) Err() error {
	h.pipe.mu.Lock()
	defer h.pipe.mu.Unlock()
	return h.lost
}

// Valid says that nobody else has the lock now.
func (h *Hold) Valid() bool {
	h.pipe.mu.Lock()
	defer h.pipe.mu.Unlock()
	return !h.gone && boottime() < h.until
}

// Fence rises with each holder of a fenced lock. Pass it on to a resource that refuses smaller
// ones. It is 0 if the lock is not fenced.
func (h *Hold) Fence() int64 { return h.fence }

// Slot is which slot of a semaphore this is, from 1 on; 0: it is none.
func (h *Hold) Slot() int { return h.slot }

// Extend keeps the lock for ttl from now on, and is the TTL of later extensions.
func (h *Hold) Extend(ctx context.Context, ttl time.Duration) error {
	request := map[string]any{"op": "extend", "hold": h.id, "ttl_ms": milliseconds(ttl)}
	return h.ask(ctx, request)
}

// Beat says that the work goes on: see Options.Beat.
func (h *Hold) Beat(ctx context.Context) error {
	return h.ask(ctx, map[string]any{"op": "beat", "hold": h.id})
}

// Unlock is called when all work under the lock has ended, also if the lock was lost. It is sent
// in any case, and ctx limits only how long to wait for the nodes to confirm it. After an error
// for which Err is nil, the lock was held to the end, and may stay until its deadline. A second
// Unlock, as by defer, does nothing.
func (h *Hold) Unlock(ctx context.Context) error {
	h.pipe.mu.Lock()
	again := h.unlocked
	h.unlocked = true
	h.leave(nil)
	h.pipe.mu.Unlock()
	if again {
		return h.Err()
	}
	return h.ask(ctx, map[string]any{"op": "unlock", "hold": h.id})
}

func (h *Hold) ask(ctx context.Context, request map[string]any) error {
	err := h.pipe.ask(ctx, request)
	h.pipe.mu.Lock()
	defer h.pipe.mu.Unlock()
	if h.lost == nil && (errors.Is(err, ErrGone) || errors.Is(err, ErrTaken)) {
		h.lost = err
	}
	if h.lost != nil {
		return h.lost
	}
	return err
}

// leave is called under pipe.mu, and counts once.
func (h *Hold) leave(lost error) {
	if !h.gone {
		h.gone, h.lost = true, lost
		delete(h.pipe.holds, h.id)
		h.cancel()
	}
}

// Error is what "redlock pipe" says. Code and Reason are those of redlock.h.
type Error struct {
	Code   string          `json:"error"`
	Reason string          `json:"reason"`
	Text   string          `json:"text"`
	Holder string          `json:"holder"` // who has the lock; "": nobody is known
	Nodes  json.RawMessage `json:"nodes"`  // what each node replied, as with --json
}

func (e *Error) Error() string { return "redlock: " + e.Code + ": " + e.Text }

// Is compares the code alone.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// For errors.Is; any other code by &Error{Code: "..."}.
var (
	ErrTaken    = &Error{Code: "TAKEN"}     // Wait: Try, and another owner holds it
	ErrTimeout  = &Error{Code: "TIMEOUT"}   // another owner held it until Wait was over
	ErrNoQuorum = &Error{Code: "NO_QUORUM"} // too few nodes gave a usable reply
	ErrExpired  = &Error{Code: "EXPIRED"}   // too little of the TTL is left
	ErrGone     = &Error{Code: "GONE"}      // the nodes no longer store it
	ErrMaxHold  = &Error{Code: "MAX_HOLD"}  // MaxHold is over
)
