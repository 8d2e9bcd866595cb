// The histories of the clients: history.py describes the lines.
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

type line struct {
	what, holder, result, kind string
	begin, end, fence, until   int64
	keys                       []string
	text                       string
}

func (l line) fenced() bool { return strings.HasPrefix(l.kind, "fenced-") }
func (l line) reads() bool  { return strings.HasSuffix(l.kind, "shared") }

// slots is 0 if it is no semaphore.
func (l line) slots() (slots int64, slot string) {
	rest := strings.TrimPrefix(strings.TrimPrefix(l.kind, "fenced-"), "slots=")
	if words := strings.Split(rest, ":"); len(words) == 2 {
		slots, _ = strconv.ParseInt(words[0], 10, 64)
		return slots, words[1]
	}
	return 0, ""
}

// locked are the keys on the nodes: a slot has its own.
func (l line) locked() []string {
	_, slot := l.slots()
	if slot == "" {
		return l.keys
	}
	var keys []string
	for _, key := range l.keys {
		keys = append(keys, key+"!"+slot)
	}
	return keys
}

func parse(text string) (line, error) {
	words := strings.Fields(text)
	if len(words) < 9 {
		return line{}, fmt.Errorf("not a line of a history: %q", text)
	}
	var numbers [4]int64
	for i, at := range []int{2, 3, 7, 8} {
		number, err := strconv.ParseInt(words[at], 10, 64)
		if err != nil {
			return line{}, err
		}
		numbers[i] = number
	}
	return line{what: words[0], holder: words[1], result: words[4], kind: words[6],
		begin: numbers[0], end: numbers[1], fence: numbers[2], until: numbers[3],
		keys: words[9:], text: text}, nil
}

func readFile(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []line
	for texts := bufio.NewScanner(file); texts.Scan(); {
		one, err := parse(texts.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %v", path, err)
		}
		lines = append(lines, one)
	}
	return lines, nil
}

func readFolder(folder string) ([]line, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.history"))
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, path := range paths {
		found, err := readFile(path)
		if err != nil {
			return nil, err
		}
		lines = append(lines, found...)
	}
	sort.SliceStable(lines, func(i, j int) bool { return lines[i].end < lines[j].end })
	return lines, nil
}

// A hold lasts from since to until.
type hold struct {
	since, until int64
	reads        bool
	taken        line
}

// holds are the acquisitions; what was extended after its deadline is late.
func holds(lines []line) (found []*hold, late []line) {
	now := map[string]*hold{}
	for _, l := range lines {
		if (l.what == "acquire" || l.what == "probe") && l.result == "OK" {
			now[l.holder] = &hold{since: l.end, until: l.until, reads: l.reads(), taken: l}
			found = append(found, now[l.holder])
			continue
		}
		h := now[l.holder]
		if h == nil {
			continue
		}
		switch l.what {
		case "extend", "renew":
			if l.what == "extend" && l.until > 0 && l.begin > h.until {
				late = append(late, l)
			}
			h.until = max(h.until, l.until)
		case "downgrade":
			reader := &hold{since: l.begin, until: max(h.until, l.until), reads: true, taken: h.taken}
			h.until = min(h.until, l.begin)
			now[l.holder] = reader
			found = append(found, reader)
		case "release", "loss":
			h.until = min(h.until, l.begin)
		}
	}
	return found, late
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func min(a, b int64) int64 { return -max(-a, -b) }
