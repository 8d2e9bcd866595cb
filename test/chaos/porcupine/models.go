// What a lock, a token and a resource may do, as sequential objects.
package main

import "github.com/anishathalye/porcupine"

const (
	lockIn = iota
	unlockIn
	tokenIn
	refusedIn
)

type input struct {
	what  int
	reads bool
	slots int64
	fence int64
	hold  int // which unlock belongs to which lock
	text  string
}

// A lock: one writer, or readers, or as many as there are slots.
type lockState struct{ writers, readers, holders, slots int64 }

var lockModel = porcupine.Model{
	Init: func() interface{} { return lockState{} },
	Step: func(state, in, _ interface{}) (bool, interface{}) {
		s, i := state.(lockState), in.(input)
		step := int64(1)
		if i.what == unlockIn {
			step = -1
		}
		fits := true
		switch {
		case i.slots > 0:
			fits = s.writers == 0 && s.readers == 0 && s.holders < max(i.slots, s.slots)
			s.holders += step
			s.slots = max(i.slots, s.slots)
		case i.reads:
			fits = s.writers == 0 && s.holders == 0
			s.readers += step
		default:
			fits = s.writers == 0 && s.readers == 0 && s.holders == 0
			s.writers += step
		}
		if s.holders == 0 {
			s.slots = 0
		}
		return i.what == unlockIn || (fits && i.what == lockIn), s
	},
}

// The largest token of all, and that of writers.
type tokenState struct{ any, writer int64 }

func tokenModel(mayRepeat bool) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return tokenState{} },
		Step: func(state, in, _ interface{}) (bool, interface{}) {
			s, i := state.(tokenState), in.(input)
			least := s.any
			if i.reads {
				least = s.writer
			}
			fits := i.fence > least || (mayRepeat && i.fence == least)
			s.any = max(s.any, i.fence)
			if !i.reads {
				s.writer = max(s.writer, i.fence)
			}
			return fits && i.what != refusedIn, s
		},
	}
}
