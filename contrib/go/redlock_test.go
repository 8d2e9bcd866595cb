package redlock

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

var background = context.Background()

// start returns a client of the fake, and what the fake has read.
func start(t *testing.T, how string) (*Client, func() string) {
	log := t.TempDir() + "/log"
	t.Setenv("FAKE", how)
	t.Setenv("FAKE_LOG", log)
	t.Setenv("REDLOCK_COMMAND", os.Args[0])
	client := &Client{Nodes: []string{"redis://a", "redis://b"}}
	return client, func() string {
		text, _ := os.ReadFile(log)
		return string(text)
	}
}

func lock(t *testing.T, client *Client, key string) *Hold {
	t.Helper()
	hold, err := client.Lock(background, key, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func expect(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("%v instead of %v", err, target)
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come: ", what)
		}
	}
}

func TestHold(t *testing.T) {
	client, log := start(t, "good")
	hold, err := client.Lock(background, "a", Options{And: []string{"b"}, Kind: "exclusive",
		Fence: true, TTL: time.Second + 1, Wait: Try, Beat: time.Minute})
	expect(t, err, nil)
	if !hold.Valid() || hold.Err() != nil || hold.Fence != 5 || hold.Slot != 0 {
		t.Fatalf("%+v", hold)
	}
	expect(t, hold.Beat(), nil)
	expect(t, hold.Extend(time.Minute), nil)
	expect(t, hold.Unlock(), nil)
	expect(t, hold.Unlock(), nil)
	if hold.Valid() || hold.Err() != nil || hold.Context().Err() == nil {
		t.Fatal("it is still held")
	}
	want := `{"beat_ms":60000,"fence":true,"id":1,"keys":["a","b"],"kind":"exclusive",` +
		`"op":"lock","ttl_ms":1001,"wait_ms":0}` + "\n" +
		`{"hold":9007199254740991,"id":2,"op":"beat"}` + "\n" +
		`{"hold":9007199254740991,"id":3,"op":"extend","ttl_ms":60000}` + "\n" +
		`{"hold":9007199254740991,"id":4,"op":"unlock"}` + "\n"
	if log() != want {
		t.Fatal(log())
	}
}

func TestTaken(t *testing.T) {
	client, _ := start(t, "good")
	_, err := client.Lock(background, "taken", Options{})
	var e *Error
	expect(t, err, ErrTaken)
	if !errors.As(err, &e) || e.Holder != "db1:1" || string(e.Nodes) != "[1]" || errors.Is(err, ErrGone) {
		t.Fatalf("%+v", e)
	}
	expect(t, lock(t, client, "a").Unlock(), nil)
}

func TestKeysThatNoPipeTakes(t *testing.T) {
	client, _ := start(t, "good")
	for _, key := range []string{"\xff", strings.Repeat("k", 64<<10)} {
		_, err := client.Lock(background, key, Options{})
		expect(t, err, &Error{Code: "BAD_KEY"})
	}
	expect(t, lock(t, client, "a").Unlock(), nil)
}

func TestLost(t *testing.T) {
	client, log := start(t, "good")
	other := lock(t, client, "a")
	hold := lock(t, client, "lost")
	go other.Beat()
	<-hold.Context().Done()
	expect(t, hold.Err(), ErrExpired)
	expect(t, other.Extend(time.Minute), nil)
	if hold.Valid() || !other.Valid() {
		t.Fatal("the wrong one is valid")
	}
	expect(t, hold.Beat(), ErrExpired)
	expect(t, hold.Unlock(), ErrExpired)
	if !strings.Contains(log(), `"op":"unlock"`) {
		t.Fatal("a lost lock was not unlocked")
	}
}

func TestDeadline(t *testing.T) {
	client, _ := start(t, "good")
	hold, err := client.Lock(background, "short", Options{})
	if err == nil { // otherwise the machine was too slow
		<-hold.Context().Done()
		err = hold.Err()
	}
	expect(t, err, ErrExpired)
	_, err = client.Lock(background, "late", Options{})
	expect(t, err, ErrExpired)
}

func TestEndOfPipe(t *testing.T) {
	client, _ := start(t, "good")
	for _, key := range []string{"die", "cut"} {
		other, hold := lock(t, client, "a"), lock(t, client, key)
		expect(t, hold.Beat(), ErrPipe)
		<-hold.Context().Done()
		<-other.Context().Done()
		expect(t, hold.Err(), ErrPipe)
		expect(t, hold.Unlock(), ErrPipe)
		again := lock(t, client, "a")
		if other.Valid() || !again.Valid() {
			t.Fatal("an old hold came back")
		}
	}
}

func TestRefusedPipes(t *testing.T) {
	for how, text := range map[string]string{"error": "no nodes (exit code 78)",
		"schema": "redlock.pipe/2", "clock": "time namespace"} {
		client, log := start(t, how)
		_, err := client.Lock(background, "a", Options{})
		expect(t, err, ErrPipe)
		if !strings.Contains(err.Error(), text) || log() != "" {
			t.Fatal(err, log())
		}
	}
	t.Setenv("REDLOCK_COMMAND", "/nowhere/redlock")
	_, err := new(Client).Lock(background, "a", Options{})
	expect(t, err, ErrPipe)
}

func TestCancel(t *testing.T) {
	client, log := start(t, "good")
	ctx, cancel := context.WithCancel(background)
	go func() {
		waitFor(t, "the request", func() bool { return strings.Contains(log(), "cross") })
		cancel()
	}()
	_, err := client.Lock(ctx, "cross", Options{})
	expect(t, err, context.Canceled)
	waitFor(t, "an unlock of what crossed the cancel", func() bool {
		return strings.Contains(log(), `{"hold":9007199254740991,"id":3,"op":"unlock"}`)
	})
	_, err = client.Lock(ctx, "a", Options{})
	expect(t, err, context.Canceled)
}

func TestContextIsThatOfLock(t *testing.T) {
	client, _ := start(t, "good")
	ctx, cancel := context.WithCancel(background)
	hold, err := client.Lock(ctx, "a", Options{})
	expect(t, err, nil)
	cancel()
	<-hold.Context().Done()
	if hold.Err() != nil || !hold.Valid() {
		t.Fatal("that is no loss")
	}
	expect(t, hold.Unlock(), nil)
}

func TestManyAtOnce(t *testing.T) {
	client, log := start(t, "good")
	var all sync.WaitGroup
	for range [100]int{} {
		all.Add(1)
		go func() {
			defer all.Done()
			hold, err := client.Lock(background, "a", Options{})
			if err == nil {
				err = hold.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if n := strings.Count(log(), "\n"); n != 200 {
		t.Fatal(n, " requests")
	}
}
