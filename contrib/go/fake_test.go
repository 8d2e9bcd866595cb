package redlock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain runs the tests, or is what they start: app, or the fake "redlock pipe". FAKE says how
// it begins, a key what becomes of its lock. FAKE_LOG gets the requests.
func TestMain(m *testing.M) {
	if key := os.Getenv("APP"); key != "" {
		ttl, _ := time.ParseDuration(os.Getenv("APP_TTL"))
		app(key, ttl)
	} else if how := os.Getenv("FAKE"); how != "" {
		fake(how)
	} else {
		os.Exit(m.Run())
	}
}

func say(format string, values ...any) { fmt.Printf(format+"\n", values...) }

func fake(how string) {
	now := boottime()
	switch how {
	case "error":
		say(`{"notice":"error","exit":78,"text":"no nodes"}`)
		return
	case "schema":
		say(`{"notice":"hello","schema":"redlock.pipe/2","now_us":%d}`, now)
	case "clock":
		say(`{"notice":"hello","schema":"redlock.pipe/1","now_us":%d}`, now+3600e6)
	default:
		say(`{"notice":"hello","schema":"redlock.pipe/1","now_us":%d,"new":[{}]}`, now)
	}
	log, _ := os.OpenFile(os.Getenv("FAKE_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(log, lines.Text())
		var r struct {
			ID, Hold, Lock int64
			Op             string
			Keys           []string
		}
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			os.Exit(1)
		}
		answer(r.ID, r.Hold, r.Lock, r.Op, strings.Join(r.Keys, "+"))
	}
}

const far = 1 << 53 // the first hold is below it: numbers are large

var next func() // what the next request causes, instead of a reply

func answer(id, hold, lock int64, op, key string) {
	until := boottime() + 30e6
	held := func(until int64) {
		say(`{"id":%d,"hold":%d,"until_us":%d,"fence":5,"slot":null}`, id, far-id, until)
	}
	if next != nil {
		next()
		next = nil
		return
	}
	switch op + " " + key {
	case "lock taken":
		say(`{"id":%d,"error":"TAKEN","reason":"NONE","text":"t","holder":"db1:1","nodes":[1]}`, id)
	case "lock lost":
		held(until)
		next = func() {
			say(`{"notice":"until","hold":1,"until_us":1}`)
			say(`{"notice":"lost","hold":%d,"error":"EXPIRED","reason":"SILENT","text":"t"}`, far-id)
			say(`{"notice":"until","hold":%d,"until_us":%d}`, far-id, until)
		}
	case "lock short":
		held(boottime() + 200e3)
	case "lock late":
		held(boottime() - 1)
	case "lock die":
		held(until)
		next = func() { os.Exit(1) }
	case "lock cut":
		held(until)
		next = func() {
			fmt.Print(`{"notice":`)
			os.Exit(1)
		}
	case "lock cross":
	case "cancel ":
		say(`{"id":%d,"hold":%d,"until_us":%d}`, lock, far-lock, until)
	case "unlock ", "beat ":
		say(`{"id":999999}`)
		say(`{"notice":"new"}`)
		say(`{"id":%d,"hold":%d}`, id, hold)
	case "extend ":
		say(`{"id":%d,"hold":%d,"until_us":%d}`, id, hold, boottime()+60e6)
	default:
		held(until)
	}
}
