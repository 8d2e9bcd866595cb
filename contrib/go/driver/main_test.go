package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestMain is the driver itself if the kit starts it.
func TestMain(m *testing.M) {
	if os.Getenv("REDLOCK_KIT") == "" {
		os.Exit(m.Run())
	}
	main()
}

func TestConformance(t *testing.T) {
	out, err := exec.Command("python3", "../../pipe/conform.py", os.Args[0]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
