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
	"runtime"
	"strings"
	"sync"
	"time"
)

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
	Notice, Schema  string
	ID, Hold, Fence int64
	Slot, Exit      int
	NowUS           int64 `json:"now_us"`
	UntilUS         int64 `json:"until_us"`
	hold            *Hold // that a lock has got
}

func (m *message) err() error {
	if m.Code == "" {
		return nil
	}
	return &m.Error
}

// members are those of a request.
type members map[string]any

// pending is a request that has no reply yet.
type pending struct {
	reply chan *message   // takes one
	lock  context.Context // of the hold that a lock will be; nil: it is no lock
}

type pipe struct {
	in, out *os.File
	begun   int64         // by the clock, before the start
	ready   chan struct{} // closed when it may be used, or has ended
	write   sync.Mutex    // one line at a time
	mu      sync.Mutex
	greeted bool
	ended   *Error
	last    int64
	open    map[int64]pending
	holds   map[int64]*Hold // held, and not known to be lost
	next    int64           // no hold ends before; only of read and what it calls
	rest    []byte          // likewise: the part of a line at the end
}

// start returns the pipe that lives, or starts one.
func (c *Client) start() (*pipe, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipe != nil && c.pipe.lives() {
		return c.pipe, nil
	}
	if runtime.GOOS != "linux" {
		return nil, failure("PIPE", "it needs Linux, and this is "+runtime.GOOS)
	}
	name := os.Getenv("REDLOCK_COMMAND")
	if name == "" {
		name = "redlock"
	}
	words := append([]string{}, c.Args...)
	cmd := exec.Command(name, append(words, "pipe", "--parent", fmt.Sprint(os.Getpid()))...)
	if len(c.Nodes) > 0 {
		cmd.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(c.Nodes, ","))
	}
	p, err := newPipe(cmd)
	if err != nil {
		return nil, failure("PIPE", err.Error())
	}
	c.pipe = p
	return p, nil
}

func newPipe(cmd *exec.Cmd) (*pipe, error) {
	p := &pipe{begun: boottime(), ready: make(chan struct{}), next: math.MaxInt64,
		open: map[int64]pending{}, holds: map[int64]*Hold{}}
	var childIn, childOut *os.File
	var err error
	if childIn, p.in, err = os.Pipe(); err == nil { // close-on-exec, as all files of Go
		p.out, childOut, err = os.Pipe()
	}
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, os.Stderr
		err = cmd.Start()
	}
	childIn.Close() // which does nothing to a nil
	childOut.Close()
	if err != nil {
		p.in.Close()
		p.out.Close()
		return nil, err
	}
	go func() {
		p.end(p.read().Error())
		cmd.Wait()
	}()
	return p, nil
}

func (p *pipe) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended == nil
}

// end aborts all holds. They stay locked until their deadlines.
func (p *pipe) end(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return
	}
	p.ended = failure("PIPE", why)
	if !p.greeted {
		close(p.ready)
	}
	for _, h := range p.holds {
		h.leave(p.ended)
	}
	for _, one := range p.open {
		one.reply <- &message{Error: *p.ended}
	}
	p.open = nil
	p.in.Close()
	p.out.Close()
}

// --- requests ---

// send writes one line. The reply, or why there was no request, comes from the channel.
func (p *pipe) send(request members, lock context.Context) (int64, <-chan *message) {
	p.write.Lock()
	defer p.write.Unlock()
	one := pending{make(chan *message, 1), lock}
	p.mu.Lock()
	p.last++
	id, refused := p.last, p.ended
	request["id"] = id
	line, _ := json.Marshal(request) // of strings and numbers: it cannot fail
	if refused == nil && len(line) >= longest {
		refused = failure("BAD_KEY", "the keys are too long")
	}
	if refused == nil {
		p.open[id] = one
	}
	p.mu.Unlock()
	if refused != nil {
		one.reply <- &message{Error: *refused}
		return id, one.reply
	}
	p.in.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.end(err.Error())
	}
	return id, one.reply
}

func (p *pipe) ask(request members) error {
	_, reply := p.send(request, nil)
	return (<-reply).err()
}

func (p *pipe) lock(ctx context.Context, request members) (*Hold, error) {
	select {
	case <-p.ready:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	id, reply := p.send(request, ctx)
	select {
	case m := <-reply:
		if m.hold == nil || m.hold.Valid() {
			return m.hold, m.err()
		}
		m.hold.finish(late)
		return nil, m.hold.Unlock()
	case <-ctx.Done():
		p.send(members{"op": "cancel", "lock": id}, nil)
		go func() {
			if m := <-reply; m.hold != nil { // it crossed the cancel
				m.hold.Unlock()
			}
		}()
		return nil, ctx.Err()
	}
}

// --- what the pipe writes ---

// read ends with the pipe.
func (p *pipe) read() error {
	buffer := make([]byte, longest)
	for {
		now := boottime()
		n, err := p.wait(now, buffer)
		if err == nil {
			err = p.take(buffer[:n])
		}
		if err == io.EOF {
			return errors.New("it has ended")
		} else if err != nil {
			return err
		}
		if n < len(buffer) && p.next <= now { // what was in the pipe by now has been taken
			p.abort(now)
		}
	}
}

// wait reads until the next deadline. At a deadline it reads only what is there already: after a
// stop of the program the newer "until" of a hold is, and counts first.
func (p *pipe) wait(now int64, buffer []byte) (int, error) {
	var limit time.Time
	if p.next <= now {
		p.out.SetReadDeadline(limit)
		return poll(p.out, buffer)
	}
	if p.next < math.MaxInt64 {
		left := time.Duration(p.next-now) * time.Microsecond
		if left > tick {
			left = tick
		}
		limit = time.Now().Add(left)
	}
	p.out.SetReadDeadline(limit)
	n, err := p.out.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

func (p *pipe) take(read []byte) error {
	lines := bytes.Split(append(p.rest, read...), []byte{'\n'})
	last := len(lines) - 1
	p.rest = lines[last]
	for _, line := range lines[:last] {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("a line is not as expected: %v", err)
		}
		if err := p.handle(&m); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipe) handle(m *message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case m.Notice == "error":
		return fmt.Errorf("%s (exit code %d)", m.Text, m.Exit)
	case !p.greeted:
		return p.greet(m)
	}
	one, isReply := p.open[m.ID]
	if isReply && one.lock != nil && m.Code == "" {
		m.hold = p.newHold(m, one.lock)
	}
	if h := p.holds[m.Hold]; h != nil && m.Notice == "lost" {
		h.leave(&m.Error)
	} else if h != nil && m.UntilUS != 0 && (isReply || m.Notice == "until") {
		h.until = m.UntilUS
		if h.until < p.next {
			p.next = h.until
		}
	}
	if isReply {
		delete(p.open, m.ID)
		one.reply <- m
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
	close(p.ready)
	return nil
}

func (p *pipe) newHold(m *message, parent context.Context) *Hold {
	h := &Hold{pipe: p, id: m.Hold, Fence: m.Fence, Slot: m.Slot}
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
			h.leave(late)
		} else if h.until < p.next {
			p.next = h.until
		}
	}
}
