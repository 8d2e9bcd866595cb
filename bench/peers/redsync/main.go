// redsync, in as many goroutines as there are lanes.
//
// A cycle: default: Lock and Unlock return when all nodes have answered. best: at the
// majority (WithFailFast), as early as the answers allow it.
//
// default: go-redis, as in the README; its pool holds 10 connections for each core.
// best: what makes it several times as fast is another client: rueidis, for which redsync
// has an adapter as well, and which sends commands of different goroutines together. With
// one connection to each node: what is sent first is executed first, so that no release
// overtakes a SET that nobody waits for any more, which with more connections leaves keys
// behind until they expire. A collector that waits for more garbage. With many in flight,
// writing waits for 100 us so that there is more to send together; with one in flight it
// does not, for that would only be late.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

const (
	ttl        = 10 * time.Second
	lanesMax   = 64
	gcPercent  = 400
	flushDelay = 100 * time.Microsecond
)

// --- settings ---

type locks struct {
	redsync *redsync.Redsync
	options []redsync.Option
}

func ofGoRedis(addresses []string) locks {
	var pools []redis.Pool
	for _, address := range addresses {
		client := goredis.NewClient(&goredis.Options{Addr: address})
		pools = append(pools, goredispool.NewPool(client))
	}
	return locks{redsync.New(pools...), []redsync.Option{redsync.WithExpiry(ttl)}}
}

func ofRueidis(addresses []string, delay time.Duration) locks {
	var pools []redis.Pool
	for _, address := range addresses {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{address},
			ForceSingleClient: true,
			DisableCache:      true,
			PipelineMultiplex: -1, // one connection
			MaxFlushDelay:     delay,
		})
		if err != nil {
			fail(err)
		}
		pools = append(pools, rueidispool.NewPool(rueidiscompat.NewAdapter(client)))
	}
	return locks{redsync.New(pools...),
		[]redsync.Option{redsync.WithExpiry(ttl), redsync.WithFailFast(true)}}
}

// --- laps ---

type lane struct {
	number, count, failed int
	times                 []time.Duration
}

func (l *locks) cycle(key string) error {
	mutex := l.redsync.NewMutex(key, l.options...)
	if err := mutex.Lock(); err != nil {
		return err
	}
	if ok, err := mutex.Unlock(); !ok {
		return fmt.Errorf("not released: %w", err)
	}
	return nil
}

func (l *lane) run(from *locks, end time.Time) {
	l.times, l.failed = l.times[:0], 0
	for began := time.Now(); began.Before(end); began = time.Now() {
		l.count++
		if from.cycle(fmt.Sprintf("bench:%04d:%010d", l.number, l.count)) == nil {
			l.times = append(l.times, time.Since(began))
		} else {
			l.failed++
		}
	}
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fail(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func lap(from *locks, lanes []lane, seconds float64) {
	cpu, began := cpuSeconds(), time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	var running sync.WaitGroup
	for i := range lanes {
		running.Go(func() { lanes[i].run(from, end) })
	}
	running.Wait()
	took := time.Since(began)
	cpu = cpuSeconds() - cpu

	var times []time.Duration
	failed := 0
	for i := range lanes {
		times = append(times, lanes[i].times...)
		failed += lanes[i].failed
	}
	slices.Sort(times)
	at := func(share int) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[len(times)*share/100]) / float64(time.Microsecond)
	}
	report := map[string]any{"cycles": len(times), "failed": failed, "seconds": took.Seconds(),
		"p50_us": at(50), "p99_us": at(99), "cpu_s": cpu}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "redsync:", err)
	os.Exit(1)
}

func main() {
	addresses := strings.Split(os.Getenv("REDLOCK_NODES"), ",")
	for i := range addresses {
		addresses[i] = strings.TrimPrefix(addresses[i], "redis://")
	}
	var alone, crowded locks
	if os.Args[1] == "best" {
		debug.SetGCPercent(gcPercent)
		alone, crowded = ofRueidis(addresses, 0), ofRueidis(addresses, flushDelay)
	} else {
		alone = ofGoRedis(addresses)
		crowded = alone
	}
	for _, each := range []*locks{&alone, &crowded} {
		if err := each.cycle("bench:first"); err != nil {
			fail(err)
		}
	}
	lanes := make([]lane, lanesMax)
	for i := range lanes {
		lanes[i].number = i
	}
	fmt.Println("ready")
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		var count int
		var seconds float64
		if _, err := fmt.Sscan(orders.Text(), &count, &seconds); err != nil {
			fail(err)
		}
		from := &crowded
		if count == 1 {
			from = &alone
		}
		lap(from, lanes[:count], seconds)
	}
}
