// Package laps runs the laps of a contender that is written in Go (../lap.h).
package laps

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"
)

const pause = time.Millisecond // after a cycle that failed

// Cycle locks and unlocks, and returns when the lock was granted.
type Cycle func(lane int) (granted time.Time, err error)

// Check ends the program if there is an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
}

// Run plays all requested laps. A cycle that fails is repeated, and takes until it succeeds.
func Run(cycle Cycle) {
	_, err := cycle(0)
	Check(err)
	fmt.Println("ready")
	for {
		var lanes int
		var seconds float64
		if _, err := fmt.Scan(&lanes, &seconds); err != nil {
			return
		}
		lap(cycle, lanes, seconds)
	}
}

type lane struct {
	times, grants []float64 // us
	failed        int
}

func microseconds(from, to time.Time) float64 {
	return float64(to.Sub(from)) / float64(time.Microsecond)
}

func (l *lane) run(cycle Cycle, number int, end time.Time) {
	for from := time.Now(); from.Before(end); {
		granted, err := cycle(number)
		for err != nil {
			l.failed++
			time.Sleep(pause)
			granted, err = cycle(number)
		}
		to := time.Now()
		l.grants = append(l.grants, microseconds(from, granted))
		l.times = append(l.times, microseconds(from, to))
		from = to
	}
}

func lap(cycle Cycle, lanes int, seconds float64) {
	all := make([]lane, lanes)
	cpu, began := cpuSeconds(), time.Now()
	end := began.Add(time.Duration(seconds * float64(time.Second)))
	var running sync.WaitGroup
	running.Add(lanes)
	for i := range all {
		go func(i int) {
			defer running.Done()
			all[i].run(cycle, i, end)
		}(i)
	}
	running.Wait()
	report(all, time.Since(began).Seconds(), cpuSeconds()-cpu)
}

func report(all []lane, took, cpu float64) {
	var sum lane
	for _, one := range all {
		sum.times = append(sum.times, one.times...)
		sum.grants = append(sum.grants, one.grants...)
		sum.failed += one.failed
	}
	sort.Float64s(sum.times)
	sort.Float64s(sum.grants)
	at := func(sorted []float64, percent int) float64 {
		return sorted[(len(sorted)-1)*percent/100]
	}
	Check(json.NewEncoder(os.Stdout).Encode(map[string]any{"cycles": len(sum.times),
		"failed": sum.failed, "seconds": took, "cpu_s": cpu, "p50_us": at(sum.times, 50),
		"p99_us": at(sum.times, 99), "max_us": at(sum.times, 100),
		"grant_us": at(sum.grants, 50)}))
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
