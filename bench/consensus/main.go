// Locks of systems that people use instead:
//
//	consensus SYSTEM ADDRESS,... TTL         a contender (../lap.h)
//	consensus SYSTEM ADDRESS,... TTL hold    locks, prints the time, holds it until it is killed
//
// SYSTEM is etcd, zookeeper or postgresql. TTL, in seconds, is how long a lock outlives its
// holder at most; it is refreshed meanwhile. Each system is used by its client's own lock,
// with default settings; all lanes share one client, as the goroutines of a service do.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"laps"
)

const (
	lanesMax = 64
	patience = time.Second // of a cycle: as long as ours waits for a node
)

// A locker waits for the key's lock. It returns what unlocks it.
type locker func(ctx context.Context, lane int, key string) (unlocker, error)
type unlocker func(ctx context.Context) error

var systems = map[string]func(addresses []string, ttl time.Duration) (locker, error){
	"etcd": ofEtcd, "zookeeper": ofZooKeeper, "postgresql": ofPostgresql,
}

// A lock whose acquire or release failed may stay until its session ends: the next try has
// another key.
func cycles(lock locker) laps.Cycle {
	var failed [lanesMax]int
	return func(lane int) (time.Time, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		unlock, err := lock(ctx, lane, fmt.Sprintf("bench-%d-%d", lane, failed[lane]))
		granted := time.Now()
		if err == nil {
			err = unlock(ctx)
		}
		if err != nil {
			failed[lane]++
		}
		return granted, err
	}
}

func hold(lock locker) {
	fmt.Println("ready")
	_, err := lock(context.Background(), 0, "contended")
	laps.Check(err)
	var now unix.Timespec
	laps.Check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	fmt.Println(now.Nano() / 1000)
	time.Sleep(time.Hour)
}

func main() {
	ttl, err := strconv.Atoi(os.Args[3])
	laps.Check(err)
	lock, err := systems[os.Args[1]](strings.Split(os.Args[2], ","),
		time.Duration(ttl)*time.Second)
	laps.Check(err)
	if len(os.Args) > 4 {
		hold(lock)
	}
	laps.Run(cycles(lock))
}
