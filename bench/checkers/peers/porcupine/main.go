// Judges registers (read, write, cas, delete) with Porcupine, to compare verdicts and speed.
//
//	porcupine [-timeout SECONDS] FILE...
//
// A file holds histories as JSON lines, an empty line between two of them. For each history a
// line of JSON tells the verdict, seconds of reading and of checking, and memory.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type event struct {
	Index   *int64          `json:"index"`
	Process int64           `json:"process"`
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Key     json.RawMessage `json:"key"`
	Value   json.RawMessage `json:"value"`
}

// What is asked of a register: states are numbers of values, 0 is null.
type input struct {
	f        byte // r, w, c
	key      string
	old, new int32
	maybe    bool // a cas that may not have happened
}

type open struct {
	at     int64
	f      string
	key    string
	asked  json.RawMessage
	client int
}

type reader struct {
	codes map[string]int32
	open  map[int64]open
	calls []porcupine.Operation
	line  int64
}

func (r *reader) code(raw json.RawMessage) int32 {
	text := string(raw)
	if text == "" || text == "null" {
		return 0
	}
	found, known := r.codes[text]
	if !known {
		found = int32(len(r.codes) + 1)
		r.codes[text] = found
	}
	return found
}

func (r *reader) add(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		log.Fatalf("event %d: %v", r.line, err)
	}
	at := r.line
	if e.Index != nil {
		at = *e.Index
	}
	r.line++
	if e.Type == "invoke" {
		r.open[e.Process] = open{at, e.F, string(e.Key), e.Value, int(e.Process)}
		return
	}
	begun, known := r.open[e.Process]
	if !known {
		log.Fatalf("event %d: completes what was not invoked", at)
	}
	delete(r.open, e.Process)
	r.end(begun, e.Type, e.Value, at)
}

// An operation that may have happened ends never; a read of that kind tells nothing.
func (r *reader) end(begun open, kind string, value json.RawMessage, at int64) {
	if kind == "fail" || (kind == "info" && begun.f == "read") {
		return
	}
	if kind == "info" {
		at = math.MaxInt64
	}
	in := input{key: begun.key}
	var out int32
	switch begun.f {
	case "read":
		in.f, out = 'r', r.code(value)
	case "write":
		in.f, in.new = 'w', r.code(begun.asked)
	case "delete":
		in.f = 'w'
	case "cas":
		var pair [2]json.RawMessage
		if err := json.Unmarshal(begun.asked, &pair); err != nil {
			log.Fatalf("event %d: %v", at, err)
		}
		in.f, in.old, in.new = 'c', r.code(pair[0]), r.code(pair[1])
		in.maybe = kind == "info"
	default:
		log.Fatalf("event %d: no operation %q", at, begun.f)
	}
	r.calls = append(r.calls, porcupine.Operation{
		ClientId: begun.client, Input: in, Call: begun.at, Output: out, Return: at,
	})
}

func (r *reader) finish() []porcupine.Operation {
	for _, begun := range r.open {
		r.end(begun, "info", nil, 0)
	}
	return r.calls
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, call := range history {
			key := call.Input.(input).key
			byKey[key] = append(byKey[key], call)
		}
		parts := make([][]porcupine.Operation, 0, len(byKey))
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return int32(0) },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		asked, now := in.(input), state.(int32)
		switch asked.f {
		case 'r':
			return out.(int32) == now, now
		case 'w':
			return true, asked.new
		}
		if now != asked.old {
			return asked.maybe, now
		}
		return true, asked.new
	},
}

func seconds() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// Greatest resident size in MiB; getrusage would count that of the parent, too.
func peak() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib / 1024
		}
	}
	log.Fatal("/proc/self/status tells no VmHWM")
	return 0
}

func judge(r *reader, timeout time.Duration, begun time.Time, spent float64) {
	calls := r.finish()
	wall, cpu := time.Now(), seconds()
	result := porcupine.CheckOperationsTimeout(model, calls, timeout)
	var valid interface{} = "unknown"
	if result != porcupine.Unknown {
		valid = result == porcupine.Ok
	}
	told, _ := json.Marshal(map[string]interface{}{
		"valid": valid, "calls": len(calls), "check_wall": time.Since(wall).Seconds(),
		"check_cpu": seconds() - cpu, "wall": time.Since(begun).Seconds(),
		"cpu": seconds() - spent, "mib": peak(),
	})
	fmt.Println(string(told))
}

func main() {
	limit := flag.Float64("timeout", 60, "seconds for each history; 0: none")
	flag.Parse()
	for _, name := range flag.Args() {
		file, err := os.Open(name)
		if err != nil {
			log.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(make([]byte, 1<<20), 1<<30)
		var r *reader
		begun, spent := time.Now(), seconds()
		for more := true; more; {
			more = lines.Scan()
			if line := lines.Bytes(); more && len(line) > 0 {
				if r == nil {
					r = &reader{codes: map[string]int32{}, open: map[int64]open{}}
				}
				r.add(line)
			} else if r != nil {
				judge(r, time.Duration(*limit*float64(time.Second)), begun, spent)
				r, begun, spent = nil, time.Now(), seconds()
			}
		}
		if err := lines.Err(); err != nil {
			log.Fatal(err)
		}
	}
}
