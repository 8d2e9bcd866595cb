// Package redlock locks on a majority of N independent Redis masters, by the command
// "redlock pipe", which it starts as a child process.
package redlock

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
	"unicode/utf8"
)

// Client starts one "redlock pipe" when it is first needed. A program needs one, which all
// goroutines share. With the zero value, the environment and /etc/redlock.conf name the nodes.
type Client struct {
	Nodes []string // URIs; in the command's environment, as they may have passwords
	Args  []string // more options of the command, such as "--prefix", "shop:"
	mu    sync.Mutex
	pipe  *pipe
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

// Lock waits until it holds key. If ctx ends while it waits, it returns ctx.Err(), and what
// comes too late is unlocked. All other errors of this package are an *Error.
func (c *Client) Lock(ctx context.Context, key string, options Options) (*Hold, error) {
	keys := append([]string{key}, options.And...)
	for _, one := range keys {
		if !utf8.ValidString(one) { // JSON would make another key of it
			return nil, failure("BAD_KEY", "a key is not UTF-8")
		}
	}
	p, err := c.start()
	if err != nil {
		return nil, err
	}
	return p.lock(ctx, options.request(keys))
}

func (o Options) request(keys []string) members {
	request := members{"op": "lock", "keys": keys}
	all := members{"kind": o.Kind, "slots": o.Slots, "fence": o.Fence,
		"ttl_ms": milliseconds(o.TTL), "wait_ms": milliseconds(o.Wait),
		"max_hold_ms": milliseconds(o.MaxHold), "beat_ms": milliseconds(o.Beat)}
	for name, value := range all {
		switch value {
		case "", 0, false, int64(0): // the default
		default:
			request[name] = value
		}
	}
	if o.Wait == Try {
		request["wait_ms"] = 0
	}
	return request
}

// milliseconds rounds up: 0 would be the default.
func milliseconds(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// Hold is a lock that is held, until Unlock or until it is lost.
type Hold struct {
	// Fence rises with each holder of a fenced lock. Pass it on to a resource that refuses
	// smaller ones. It is 0 if the lock is not fenced.
	Fence int64
	// Slot is which slot of a semaphore this is, from 1 on; 0: it is none.
	Slot int

	pipe   *pipe
	id     int64
	ctx    context.Context
	cancel context.CancelFunc
	unlock sync.Once
	// Under pipe.mu:
	until int64
	gone  bool // unlocked or lost
	lost  error
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

// Extend keeps the lock for ttl from now on, and is the TTL of later extensions.
func (h *Hold) Extend(ttl time.Duration) error {
	return h.ask(members{"op": "extend", "hold": h.id, "ttl_ms": milliseconds(ttl)})
}

// Beat says that the work goes on: see Options.Beat.
func (h *Hold) Beat() error {
	return h.ask(members{"op": "beat", "hold": h.id})
}

// Unlock is called when all work under the lock has ended, also if the lock was lost. It waits for
// the nodes to confirm it. After an error for which Err is nil, the lock was held to the end, and
// may stay until its deadline. A second Unlock, as by defer, does nothing.
func (h *Hold) Unlock() error {
	var err error
	h.unlock.Do(func() {
		h.finish(nil)
		err = h.ask(members{"op": "unlock", "hold": h.id})
	})
	if err == nil {
		err = h.Err()
	}
	return err
}

func (h *Hold) ask(request members) error {
	err := h.pipe.ask(request)
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

func (h *Hold) finish(lost error) {
	h.pipe.mu.Lock()
	defer h.pipe.mu.Unlock()
	h.leave(lost)
}

// leave is called under pipe.mu, and counts once.
func (h *Hold) leave(lost error) {
	if !h.gone {
		h.gone, h.lost = true, lost
		delete(h.pipe.holds, h.id)
		h.cancel()
	}
}

// Error is what "redlock pipe" says, or PIPE. Code and Reason are those of redlock.h.
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
	ErrPipe     = &Error{Code: "PIPE"}      // it cannot start, or has ended: Lock starts another one
)

var late = failure("EXPIRED", "no extension came before the deadline")

func failure(code, text string) *Error { return &Error{Code: code, Reason: "NONE", Text: text} }
