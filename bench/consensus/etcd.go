package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// One session, which is a lease that is kept alive, and a Mutex for each lock.
func ofEtcd(addresses []string, ttl time.Duration) (locker, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client,
		concurrency.WithTTL(int(ttl/time.Second)))
	return func(ctx context.Context, _ int, key string) (unlocker, error) {
		mutex := concurrency.NewMutex(session, key)
		return mutex.Unlock, mutex.Lock(ctx)
	}, err
}
