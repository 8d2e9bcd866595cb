// porcupine FOLDER: judges the histories in it by github.com/anishathalye/porcupine, and prints
// one JSON object. It exits with 1 if a promise is broken.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const partLimit = 60 * time.Second

// A part is a key of one promise, between two moments at which nothing happens to it.
type part struct {
	promise, key string
	model        porcupine.Model
	ops          []porcupine.Operation
}

type verdict struct {
	Parts      int                 `json:"parts"`
	Operations int                 `json:"operations"`
	Unknown    int                 `json:"unknown"`
	Seconds    float64             `json:"seconds"`
	Refused    map[string][]string `json:"refused"`
	Text       string              `json:"text"`
}

func lockParts(lines []line) map[string][]porcupine.Operation {
	ops := map[string][]porcupine.Operation{}
	found, late := holds(lines)
	for number, h := range found {
		if h.until <= h.since {
			continue
		}
		slots, _ := h.taken.slots()
		add := func(key string, slots int64) {
			for what, at := range map[int]int64{lockIn: h.since, unlockIn: h.until} {
				ops[key] = append(ops[key], porcupine.Operation{Input: input{what: what,
					reads: h.reads, slots: slots, hold: number, text: h.taken.text}, Call: at, Return: at})
			}
		}
		for _, key := range h.taken.keys {
			add(key, slots)
		}
		if slots > 0 {
			for _, key := range h.taken.locked() {
				add(key, 0)
			}
		}
	}
	for _, l := range late { // no lock allows it
		twice := input{what: refusedIn, text: l.text}
		ops[l.keys[0]] = append(ops[l.keys[0]], porcupine.Operation{Input: twice, Call: l.begin, Return: l.end})
	}
	return ops
}

func tokenParts(lines []line, wanted func(line) (bool, int)) map[string][]porcupine.Operation {
	ops := map[string][]porcupine.Operation{}
	for _, l := range lines {
		is, what := wanted(l)
		if !is {
			continue
		}
		for _, key := range l.locked() {
			ops[key] = append(ops[key], porcupine.Operation{Input: input{what: what,
				reads: l.reads(), fence: l.fence, text: l.text}, Call: l.begin, Return: l.end})
		}
	}
	return ops
}

func given(l line) (bool, int) {
	refused := (l.what == "write" || l.what == "read") && l.result == "refused" && l.until >= l.end
	if refused {
		return true, refusedIn // by a resource, though the holder held the lock
	}
	return (l.what == "acquire" || l.what == "probe") && l.result == "OK" && l.fenced(), tokenIn
}

func accepted(l line) (bool, int) {
	return (l.what == "write" || l.what == "read") && l.result == "accepted", tokenIn
}

// cut separates where no operation is open, and no lock is held. What tokens were seen before
// is an operation of its own.
func cut(promise, key string, model porcupine.Model, ops []porcupine.Operation) []part {
	sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	var parts []part
	state, first, last := model.Init(), 0, int64(-1)
	held := map[int]bool{}
	for i, op := range ops {
		if i > first && op.Call > last && len(held) == 0 {
			parts = append(parts, part{promise, key, from(model, state), ops[first:i]})
			state, first = after(model, state, ops[first:i]), i
		}
		last = max(last, op.Return)
		if in := op.Input.(input); in.what == lockIn {
			held[in.hold] = true
		} else if in.what == unlockIn {
			delete(held, in.hold)
		}
	}
	return append(parts, part{promise, key, from(model, state), ops[first:]})
}

func from(model porcupine.Model, state interface{}) porcupine.Model {
	model.Init = func() interface{} { return state }
	return model
}

// after ignores whether an operation fits: so it does not depend on their order.
func after(model porcupine.Model, state interface{}, ops []porcupine.Operation) interface{} {
	for _, op := range ops {
		_, state = model.Step(state, op.Input, nil)
	}
	return state
}

func check(p part, ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(p.model, ops, partLimit)
}

// without leaves out an operation, and the other one of its hold.
func without(ops []porcupine.Operation, at int) []porcupine.Operation {
	var kept []porcupine.Operation
	in := ops[at].Input.(input)
	for i, op := range ops {
		other := op.Input.(input)
		isPair := (in.what == lockIn || in.what == unlockIn) && other.hold == in.hold
		if i != at && !isPair {
			kept = append(kept, op)
		}
	}
	return kept
}

// shortest leaves out what the refusal does not need.
func shortest(p part) []porcupine.Operation {
	ops := p.ops
	for at := len(ops) - 1; at >= 0; at-- {
		if at >= len(ops) {
			continue
		}
		if fewer := without(ops, at); check(p, fewer) == porcupine.Illegal {
			ops = fewer
		}
	}
	return ops
}

func tell(p part) string {
	text := fmt.Sprintf("%s of %s: Porcupine refuses\n", p.promise, p.key)
	seen := map[string]bool{}
	for _, op := range shortest(p) {
		if l := op.Input.(input).text; !seen[l] {
			seen[l] = true
			text += "    " + l + "\n"
		}
	}
	return text
}

func judge(lines []line) verdict {
	begun := time.Now()
	found := verdict{Refused: map[string][]string{"exclusion": {}, "order": {}, "resource": {}}}
	var parts []part
	for promise, of := range map[string]struct {
		model porcupine.Model
		ops   map[string][]porcupine.Operation
	}{
		"exclusion": {lockModel, lockParts(lines)},
		"order":     {tokenModel(false), tokenParts(lines, given)},
		"resource":  {tokenModel(true), tokenParts(lines, accepted)},
	} {
		for key, ops := range of.ops {
			found.Operations += len(ops)
			parts = append(parts, cut(promise, key, of.model, ops)...)
		}
	}
	found.Parts = len(parts)
	refused := map[string]bool{}
	var texts []string
	for _, p := range parts {
		switch check(p, p.ops) {
		case porcupine.Unknown:
			found.Unknown++
		case porcupine.Illegal:
			if !refused[p.promise+p.key] {
				found.Refused[p.promise] = append(found.Refused[p.promise], p.key)
				texts = append(texts, tell(p))
			}
			refused[p.promise+p.key] = true
		}
	}
	for _, keys := range found.Refused {
		sort.Strings(keys)
	}
	sort.Strings(texts)
	found.Text = strings.Join(texts, "")
	found.Seconds = time.Since(begun).Seconds()
	return found
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine FOLDER")
		os.Exit(64)
	}
	lines, err := readFolder(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	found := judge(lines)
	json.NewEncoder(os.Stdout).Encode(found)
	if found.Text != "" {
		os.Exit(1)
	}
}
