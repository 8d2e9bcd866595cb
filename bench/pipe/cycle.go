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

func cycle() {
	hold, err := client.Lock(background, key, options)
	check(err)
	check(hold.Unlock())
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func lap(seconds float64) {
	var times []float64 // us
	cpu, began := cpuSeconds(), time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	for from := began; from.Before(end); {
		cycle()
		to := time.Now()
		times = append(times, float64(to.Sub(from))/float64(time.Microsecond))
		from = to
	}
	took, cpu := time.Since(began).Seconds(), cpuSeconds()-cpu
	sort.Float64s(times)
	at := func(percent int) float64 { return times[len(times)*percent/100] }
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"cycles": len(times), "seconds": took,
		"cpu_s": cpu, "p50_us": at(50), "p99_us": at(99)}))
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
