package redlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// These use the real pipe: in `redlock local -n 3 --`, with REDLOCK_COMMAND if need be.

const (
	ttl    = 2 * time.Second
	farTTL = time.Hour // a TTL that no test waits for
)

// app is the program that the tests start. It holds a lock, with beats, until that is lost; then
// it takes it again.
func app(key string, ttl time.Duration) {
	client := &Client{}
	hold, err := client.Lock(background, key, Options{TTL: ttl, Beat: time.Second})
	if err != nil {
		panic(err)
	}
	go func() {
		for hold.Beat() == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}()
	fmt.Println("held")
	if strings.HasPrefix(key, "child") {
		exec.Command("sleep", "60").Start()
		return
	}
	<-hold.Context().Done()
	fmt.Println("aborted", boottime(), hold.Valid(), hold.Err())
	hold.Unlock()
	again, err := client.Lock(background, key, Options{})
	if err == nil {
		err = again.Unlock()
	}
	fmt.Println("again", err)
}

type program struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func run(t *testing.T, key string, ttl time.Duration) program {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "APP="+key, "APP_TTL="+ttl.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	expect(t, err, nil)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := program{cmd, bufio.NewScanner(out)}
	if line := p.next(); line != "held" {
		t.Fatal(line)
	}
	return p
}

func (p program) next() string {
	p.lines.Scan()
	return p.lines.Text()
}

// pipe is the process that it has started.
func (p program) pipe(t *testing.T) int {
	var pid int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	for _, file := range files {
		children, _ := os.ReadFile(file)
		fmt.Sscan(string(children), &pid)
	}
	if pid == 0 {
		t.Fatal("there is no pipe")
	}
	return pid
}

// locked returns when another client has had the lock, by the clock.
func locked(t *testing.T, key string) int64 {
	t.Helper()
	begun := time.Now()
	hold := lock(t, real(t), key)
	now := boottime()
	t.Logf("another client had the lock after %d ms", time.Since(begun).Milliseconds())
	expect(t, hold.Unlock(), nil)
	return now
}

func real(t *testing.T) *Client {
	if os.Getenv("REDLOCK_LOCAL_DIR") == "" {
		t.Skip("there are no servers: run this in redlock local")
	}
	return &Client{}
}

func TestServersKinds(t *testing.T) {
	client := real(t)
	first, err := client.Lock(background, "kinds", Options{Fence: true, TTL: ttl})
	expect(t, err, nil)
	_, err = client.Lock(background, "kinds", Options{Fence: true, Wait: Try})
	expect(t, err, ErrTaken)
	_, err = client.Lock(background, "kinds", Options{Fence: true, Wait: 50 * time.Millisecond})
	expect(t, err, ErrTimeout)
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	_, err = client.Lock(ctx, "kinds", Options{Fence: true})
	expect(t, err, context.DeadlineExceeded)
	time.Sleep(2 * ttl) // it is extended
	expect(t, first.Extend(2*ttl), nil)
	expect(t, first.Unlock(), nil)
	second, err := client.Lock(background, "kinds", Options{Fence: true})
	expect(t, err, nil)
	if second.Fence <= first.Fence {
		t.Fatal(first.Fence, second.Fence)
	}
	expect(t, second.Unlock(), nil)
	several, err := client.Lock(background, "a", Options{And: []string{"b"}})
	expect(t, err, nil)
	_, err = client.Lock(background, "b", Options{And: []string{"c"}, Wait: Try})
	expect(t, err, ErrTaken)
	expect(t, several.Unlock(), nil)
	slot, err := client.Lock(background, "slots", Options{Slots: 3})
	expect(t, err, nil)
	if slot.Slot < 1 || slot.Slot > 3 {
		t.Fatal(slot.Slot)
	}
	expect(t, slot.Unlock(), nil)
}

func TestServersLimits(t *testing.T) {
	client := real(t)
	hold, err := client.Lock(background, "limits", Options{TTL: ttl, MaxHold: time.Second})
	expect(t, err, nil)
	<-hold.Context().Done()
	if err := hold.Unlock(); !errors.Is(err, ErrExpired) { // at the deadline, by the clock
		expect(t, err, ErrMaxHold)
	}
	hold, err = client.Lock(background, "limits", Options{TTL: ttl, Beat: time.Second})
	expect(t, err, nil)
	for range [10]int{} {
		time.Sleep(ttl / 5)
		expect(t, hold.Beat(), nil)
	}
	<-hold.Context().Done()
	expect(t, hold.Unlock(), ErrExpired)
}

func TestServersProgramIsKilled(t *testing.T) {
	real(t)
	p := run(t, "killed", farTTL)
	p.Process.Kill()
	locked(t, "killed")
}

func TestServersProgramExitsWithChild(t *testing.T) {
	real(t)
	run(t, "child", farTTL).Wait()
	locked(t, "child")
}

func TestServersPipeIsKilled(t *testing.T) {
	real(t)
	p := run(t, "pipe", ttl)
	syscall.Kill(p.pipe(t), syscall.SIGKILL)
	abortedBefore(t, p, locked(t, "pipe"), "redlock: PIPE: ")
}

func TestServersPipeIsStopped(t *testing.T) {
	real(t)
	p := run(t, "stopped pipe", ttl)
	pipe := p.pipe(t)
	syscall.Kill(pipe, syscall.SIGSTOP)
	now := locked(t, "stopped pipe")
	syscall.Kill(pipe, syscall.SIGCONT)
	abortedBefore(t, p, now, "redlock: EXPIRED")
}

// abortedBefore expects that the program has noticed the loss before another one had the lock.
func abortedBefore(t *testing.T, p program, now int64, why string) {
	t.Helper()
	var aborted int64
	line := p.next()
	fmt.Sscanf(line, "aborted %d", &aborted)
	if aborted == 0 || aborted > now || !strings.Contains(line, "false "+why) {
		t.Fatal(now, line)
	}
	if line = p.next(); line != "again <nil>" {
		t.Fatal(line)
	}
}

func TestServersProgramIsStopped(t *testing.T) {
	real(t)
	p := run(t, "stopped", ttl)
	p.Process.Signal(syscall.SIGSTOP)
	locked(t, "stopped")
	p.Process.Signal(syscall.SIGCONT)
	if line := p.next(); !strings.Contains(line, " false redlock: ") {
		t.Fatal(line)
	}
	if line := p.next(); line != "again <nil>" {
		t.Fatal(line)
	}
}

func TestServersManyAtOnce(t *testing.T) {
	client := real(t)
	var all sync.WaitGroup
	var holders int32
	work := func(key string, most int32) {
		defer all.Done()
		hold, err := client.Lock(background, key, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		if most == 1 {
			if n := atomic.AddInt32(&holders, 1); n != 1 {
				t.Error(n, " holders")
			}
			time.Sleep(time.Millisecond)
			atomic.AddInt32(&holders, -1)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	}
	for i := range [100]int{} {
		all.Add(2)
		go work(fmt.Sprint("many ", i), 100)
		go work("one", 1)
	}
	all.Wait()
}
