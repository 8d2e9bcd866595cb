package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/lib/pq"
)

// A session for each lane, because a session may lock a key that it has already; prepared
// statements, so that each takes one round trip. The lock ends with its connection: no TTL.
func ofPostgresql(addresses []string, _ time.Duration) (locker, error) {
	var lock, unlock [lanesMax]*sql.Stmt
	begin := func(lane int) (err error) {
		db, err := sql.Open("postgres",
			fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", addresses[0]))
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		if lock[lane], err = db.Prepare(
			"SELECT pg_advisory_lock(hashtextextended($1, 0))"); err != nil {
			return err
		}
		unlock[lane], err = db.Prepare("SELECT pg_advisory_unlock(hashtextextended($1, 0))")
		return err
	}
	return func(ctx context.Context, lane int, key string) (unlocker, error) {
		if lock[lane] == nil {
			if err := begin(lane); err != nil {
				return nil, err
			}
		}
		_, err := lock[lane].ExecContext(ctx, key)
		return func(ctx context.Context) error {
			_, err := unlock[lane].ExecContext(ctx, key)
			return err
		}, err
	}, nil
}
