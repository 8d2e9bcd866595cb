package main

import (
	"context"
	"io"
	"log"
	"time"

	"github.com/go-zookeeper/zk"
)

// One session, which is a connection that another server may take over, and a Lock, which is
// an ephemeral sequential node, for each lock.
func ofZooKeeper(addresses []string, ttl time.Duration) (locker, error) {
	conn, _, err := zk.Connect(addresses, ttl, zk.WithLogger(log.New(io.Discard, "", 0)))
	return func(_ context.Context, _ int, key string) (unlocker, error) {
		lock := zk.NewLock(conn, "/"+key, zk.WorldACL(zk.PermAll))
		return func(context.Context) error { return lock.Unlock() }, lock.Lock()
	}, err
}
