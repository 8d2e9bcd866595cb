package redlock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"time"
)

// ErrPipe is each error of the pipe as a whole: it cannot start, or has ended. The next Lock
// starts another one.
var ErrPipe = errors.New("redlock pipe")

const (
	schema     = "redlock.pipe/1"
	longest    = 64 << 10         // of a line, else the pipe ends
	writeLimit = 10 * time.Second // a pipe that takes no line for so long is given up
	// How late a deadline is noticed after a suspension, in which Go's timers stop.
	tick = 100 * time.Millisecond
)

// message is each line of the pipe.
type message struct {
	Error
	ID      int64  `json:"id"`
	Notice  string `json:"notice"`
	Schema  string `json:"schema"`
	NowUS   int64  `json:"now_us"`
	Exit    int    `json:"exit"`
	Hold    int64  `json:"hold"`
	UntilUS int64  `json:"until_us"`
	Fence   int64  `json:"fence"`
	Slot    int    `json:"slot"`
}

type reply struct {
	hold *Hold // of a lock
	err  error
}

// request is one that has no reply yet.
type request struct {
	replies chan reply      // takes one
	lock    context.Context // of the hold that a lock will be; nil: it is no lock
}

type pipe struct {
	in, out *os.File
	begun   int64         // by the clock, before the start
	hello   chan struct{} // closed when it may be used
	over    chan struct{} // closed when it has ended
	write   sync.Mutex    // one line at a time
	mu      sync.Mutex
	ended   error
	last    int64
	open    map[int64]request
	holds   map[int64]*Hold // held, and not known to be lost
	next    int64           // no hold ends before; only of read and what it calls
	greeted bool            // likewise
}

func newPipe(cmd *exec.Cmd) (*pipe, error) {
	p := &pipe{begun: boottime(), hello: make(chan struct{}), over: make(chan struct{}),
		open: map[int64]request{}, holds: map[int64]*Hold{}, next: math.MaxInt64}
	childIn, in, err := os.Pipe() // close-on-exec, as all files of Go
	if err != nil {
		return nil, err
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer childOut.Close()
	p.in, p.out = in, out
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, os.Stderr
	if err = cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	go func() {
		p.end(p.read().Error())
		cmd.Wait()
	}()
	return p, nil
}

func (p *pipe) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended != nil
}

// end aborts all holds. They stay locked until their deadlines.
func (p *pipe) end(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return
	}
	close(p.over)
	p.ended = fmt.Errorf("%w: %s", ErrPipe, why)
	for _, h := range p.holds {
		h.leave(p.ended)
	}
	for _, one := range p.open {
		one.replies <- reply{err: p.ended}
	}
	p.open = nil
	p.in.Close()
	p.out.Close()
}

// --- requests ---

// send writes one line. The reply comes from the channel; a cancel has none.
func (p *pipe) send(members map[string]any, lock context.Context) (int64, <-chan reply, error) {
	p.write.Lock()
	defer p.write.Unlock()
	one := request{make(chan reply, 1), lock}
	id, line, err := p.enter(members, one)
	if err != nil {
		return 0, nil, err
	}
	p.in.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err = p.in.Write(line); err != nil {
		p.end(err.Error())
	}
	return id, one.replies, nil
}

func (p *pipe) enter(members map[string]any, one request) (int64, []byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return 0, nil, p.ended
	}
	p.last++
	members["id"] = p.last
	line, err := json.Marshal(members)
	switch {
	case err != nil:
		return 0, nil, err
	case len(line) >= longest:
		return 0, nil, &Error{Code: "BAD_KEY", Reason: "NONE", Text: "the keys are too long"}
	case members["op"] != "cancel":
		p.open[p.last] = one
	}
	return p.last, append(line, '\n'), nil
}

func (p *pipe) ask(ctx context.Context, members map[string]any) error {
	_, replies, err := p.send(members, nil)
	if err != nil {
		return err
	}
	select {
	case r := <-replies:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pipe) lock(ctx context.Context, members map[string]any) (*Hold, error) {
	select {
	case <-p.hello:
	case <-p.over: // send says why
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	id, replies, err := p.send(members, ctx)
	if err != nil {
		return nil, err
	}
	select {
	case r := <-replies:
		if r.err != nil || r.hold.Valid() {
			return r.hold, r.err
		}
		r.hold.Unlock(ctx)
		if lost := r.hold.Err(); lost != nil {
			return nil, lost
		}
		return nil, expired() // the reply came too late
	case <-ctx.Done():
		p.send(map[string]any{"op": "cancel", "lock": id}, nil)
		go func() {
			if r := <-replies; r.err == nil { // it crossed the cancel
				r.hold.Unlock(context.Background())
			}
		}()
		return nil, ctx.Err()
	}
}

// --- what the pipe writes ---

// read ends with the pipe.
func (p *pipe) read() error {
	buffer := make([]byte, longest)
	var rest []byte
	for {
		p.out.SetReadDeadline(p.wake())
		n, err := p.out.Read(buffer)
		if err == io.EOF {
			return errors.New("it has ended")
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if rest, err = p.take(append(rest, buffer[:n]...)); err != nil {
			return err
		}
		// After a stop the newer "until" of a hold is in the pipe already: it counts first.
		p.out.SetReadDeadline(time.Time{})
		for now := boottime(); p.next <= now; {
			if n, err = poll(p.out, buffer); err != nil {
				return err
			}
			if rest, err = p.take(append(rest, buffer[:n]...)); err != nil {
				return err
			}
			if n < len(buffer) {
				p.abort(now)
			}
		}
	}
}

// wake is when to read no longer, but to look at the clock.
func (p *pipe) wake() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.holds) == 0 {
		p.next = math.MaxInt64
		return time.Time{}
	}
	left := min(p.next-boottime(), tick.Microseconds())
	return time.Now().Add(time.Duration(left) * time.Microsecond)
}

// take returns the part of a line at the end.
func (p *pipe) take(read []byte) ([]byte, error) {
	for {
		line, rest, isWhole := bytes.Cut(read, []byte{'\n'})
		if !isWhole {
			return line, nil
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("a line is not as expected: %v", err)
		}
		if err := p.handle(&m); err != nil {
			return nil, err
		}
		read = rest
	}
}

func (p *pipe) handle(m *message) error {
	if m.Notice == "error" {
		return fmt.Errorf("%s (exit code %d)", m.Text, m.Exit)
	}
	if !p.greeted {
		return p.greet(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var r reply
	if m.Code != "" {
		r.err = &m.Error
	}
	one, isReply := p.open[m.ID]
	if isReply && one.lock != nil && r.err == nil {
		r.hold = p.newHold(m, one.lock)
	}
	if h := p.holds[m.Hold]; h != nil && m.Notice == "lost" {
		h.leave(&m.Error)
	} else if h != nil && m.UntilUS != 0 && (isReply || m.Notice == "until") {
		h.until = m.UntilUS
		p.next = min(p.next, h.until)
	}
	if isReply {
		delete(p.open, m.ID)
		one.replies <- r
	}
	return nil
}

func (p *pipe) greet(m *message) error {
	switch {
	case m.Notice != "hello" || m.Schema != schema:
		return fmt.Errorf("it speaks %q, and this package %q", m.Schema, schema)
	case m.NowUS < p.begun || m.NowUS > boottime()+1:
		return errors.New("it has another CLOCK_BOOTTIME: is one of us in a time namespace?")
	}
	p.greeted = true
	close(p.hello)
	return nil
}

// newHold is called under mu.
func (p *pipe) newHold(m *message, parent context.Context) *Hold {
	h := &Hold{pipe: p, id: m.Hold, fence: m.Fence, slot: m.Slot}
	h.ctx, h.cancel = context.WithCancel(parent)
	p.holds[h.id] = h
	return h
}

// abort ends the holds that nothing has extended before now.
func (p *pipe) abort(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = math.MaxInt64
	for _, h := range p.holds {
		if h.until <= now {
			h.leave(expired())
		} else {
			p.next = min(p.next, h.until)
		}
	}
}

func expired() error {
	return &Error{Code: "EXPIRED", Reason: "NONE", Text: "no extension came before the deadline"}
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}
