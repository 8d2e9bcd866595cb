// A contender of the races (../lap.h): the wrapper of redlock pipe for Go, with one lane.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"syscall"
	"time"

	"redlock"
)

var (
	client     = redlock.Client{Args: os.Args[1:]}
	background = context.Background()
	options    = redlock.Options{TTL: 10 * time.Second}
	key        = fmt.Sprintf("bench:%015d", os.Getpid())
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// cycle returns when the lock was granted.
func cycle() time.Time {
	hold, err := client.Lock(background, key, options)
	granted := time.Now()
	check(err)
	check(hold.Unlock())
	return granted
}

func microseconds(from, to time.Time) float64 {
	return float64(to.Sub(from)) / float64(time.Microsecond)
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func lap(seconds float64) {
	var times, grants []float64
	cpu, began := cpuSeconds(), time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	for from := began; from.Before(end); {
		grants = append(grants, microseconds(from, cycle()))
		to := time.Now()
		times = append(times, microseconds(from, to))
		from = to
	}
	took, cpu := time.Since(began).Seconds(), cpuSeconds()-cpu
	at := func(all []float64, percent int) float64 {
		sort.Float64s(all)
		return all[len(all)*percent/100]
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"cycles": len(times), "seconds": took,
		"cpu_s": cpu, "p50_us": at(times, 50), "p99_us": at(times, 99),
		"grant_us": at(grants, 50)}))
}

func main() {
	cycle()
	fmt.Println("ready")
	var lanes int
	var seconds float64
	for {
		if _, err := fmt.Scan(&lanes, &seconds); err != nil {
			return
		}
		lap(seconds)
	}
}
