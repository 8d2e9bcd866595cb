package redlock_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"redlock"
)

var client = redlock.Client{Nodes: []string{"redis://a", "redis://b", "redis://c"}}

// The statement is given up if the lock is lost.
func writeReport(ctx context.Context, db *sql.DB) error {
	hold, err := client.Lock(ctx, "report", redlock.Options{})
	if err != nil {
		return err
	}
	defer hold.Unlock()
	if _, err := db.ExecContext(hold.Context(), "CALL write_report()"); err != nil {
		return err
	}
	return hold.Unlock()
}

// The database refuses a smaller fence.
func pay(ctx context.Context, payments []string) error {
	hold, err := client.Lock(ctx, "account:17", redlock.Options{
		And: []string{"account:4"}, Fence: true, Wait: 5 * time.Second})
	if errors.Is(err, redlock.ErrTimeout) {
		log.Print("try again later: ", err)
	}
	if err != nil {
		return err
	}
	defer hold.Unlock()
	for _, payment := range payments {
		if err := book(hold.Context(), payment, hold.Fence); err != nil {
			return err
		}
	}
	return hold.Unlock()
}

func book(ctx context.Context, payment string, fence int64) error { return ctx.Err() }

func Example() { _ = writeReport }

func Example_fenced() { _ = pay }
