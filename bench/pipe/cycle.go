// A contender of the races (../lap.h): the wrapper of redlock pipe for Go, with one lane.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"laps"
	"redlock"
)

func main() {
	client := redlock.Client{Args: os.Args[1:]}
	options := redlock.Options{TTL: 10 * time.Second}
	key := fmt.Sprintf("bench:%015d", os.Getpid())
	laps.Run(func(int) (time.Time, error) {
		hold, err := client.Lock(context.Background(), key, options)
		granted := time.Now()
		laps.Check(err)
		laps.Check(hold.Unlock())
		return granted, nil
	})
}
