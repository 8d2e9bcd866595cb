// The driver of this package for ../../pipe/conform.py, whose README.md has the steps and lines.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"redlock"
)

var (
	client     = &redlock.Client{}
	background = context.Background()
)

// code is the word for an error, and its text.
func code(err error) string {
	var e *redlock.Error
	if errors.As(err, &e) {
		return e.Code + " " + e.Text
	}
	return "CANCELLED " + err.Error()
}

func work(hold *redlock.Hold, verb, key string, ms time.Duration) {
	end := time.After(ms)
	fmt.Println(key, "held", hold.Fence)
	switch verb {
	case "extend":
		if err := hold.Extend(6 * time.Second); err != nil {
			fmt.Println(key, "not-extended", code(err))
		} else {
			fmt.Println(key, "extended")
		}
	case "child":
		child := exec.Command("sleep", "40")
		child.Start()
		fmt.Println(key, "child", child.Process.Pid)
	}
	select {
	case <-end:
	case <-hold.Context().Done():
		fmt.Println(key, "aborted", code(hold.Err()))
		time.Sleep(300 * time.Millisecond)
	}
	state := "invalid"
	if hold.Valid() {
		state = "valid"
	}
	fmt.Println(key, "returned", state)
}

func hold(verb, key string, ms time.Duration) {
	ctx := background
	if verb == "cancel" {
		limited, cancel := context.WithTimeout(ctx, ms)
		defer cancel()
		ctx = limited
	}
	hold, err := client.Lock(ctx, key, redlock.Options{Fence: true})
	if err == nil {
		work(hold, verb, key, ms)
		hold.Unlock()
		err = hold.Err()
	}
	if err != nil {
		fmt.Println(key, "failed", code(err))
	} else {
		fmt.Println(key, "released")
	}
}

func many(key string, count int) {
	var all sync.WaitGroup
	held := make(chan int, count)
	for i := 0; i < count; i++ {
		all.Add(1)
		go func(key string) {
			defer all.Done()
			if hold, err := client.Lock(background, key, redlock.Options{}); err == nil {
				hold.Unlock()
				if hold.Err() == nil {
					held <- 1
				}
			}
		}(key + fmt.Sprint(i))
	}
	all.Wait()
	fmt.Println(key, "many", len(held))
}

func main() {
	for _, step := range os.Args[1:] {
		var all sync.WaitGroup
		for _, part := range strings.Split(step, ",") {
			words := strings.Split(part, ":")
			number, _ := strconv.Atoi(words[2])
			all.Add(1)
			go func() {
				defer all.Done()
				if words[0] == "many" {
					many(words[1], number)
				} else {
					hold(words[0], words[1], time.Duration(number)*time.Millisecond)
				}
			}()
		}
		all.Wait()
	}
}
