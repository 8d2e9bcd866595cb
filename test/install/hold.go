// Takes a lock by contrib/go, on the nodes of REDLOCK_NODES.
package main

import (
	"context"
	"fmt"
	"log"
	"redlock"
)

func main() {
	var client redlock.Client
	hold, err := client.Lock(context.Background(), "k", redlock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by Go")
	if err := hold.Unlock(); err != nil {
		log.Fatal(err)
	}
}
