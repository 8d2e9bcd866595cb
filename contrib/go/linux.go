//go:build linux

package redlock

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

const clockBoottime = 7 // CLOCK_BOOTTIME of clock_gettime(2), which package syscall lacks

// boottime is in microseconds, and goes on while the machine is suspended.
func boottime() int64 {
	var now syscall.Timespec
	at := uintptr(unsafe.Pointer(&now))
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, at, 0); err != 0 {
		panic("redlock: clock_gettime: " + err.Error()) // without a clock no lock is safe
	}
	return now.Nano() / 1000
}

// poll reads what is there, and does not wait. The file has no deadline.
func poll(file *os.File, buffer []byte) (n int, err error) {
	raw, failed := file.SyscallConn()
	if failed == nil {
		failed = raw.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), buffer)
			return true
		})
	}
	switch {
	case failed != nil:
		return 0, failed
	case err == syscall.EAGAIN:
		return 0, nil
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}
