// Reproduces etcd issue 13766 without the harness: members of v3.5.0 to v3.5.2 that are killed
// during large transactions may skip an entry of the log, and differ from the others for good.
//
//	etcd-differ ETCD FOLDER CLIENTS COMPARES SECONDS
//
// It starts three members of the program ETCD on this machine, with data below FOLDER. Clients
// write by transactions of many compares and as many puts. A member at a time is killed and started
// again. After each kill the clients pause until all members have applied the same entry; then
// their hashes and revisions are compared. It prints the seconds and the kills up to the first
// difference. Exit codes: 0 a difference, 1 none, 2 an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	keys     = 1000
	served   = time.Second
	callTime = 3 * time.Second
	catchUp  = 30 * time.Second
)

var errNone = errors.New("no difference")

func main() {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: etcd-differ ETCD FOLDER CLIENTS COMPARES SECONDS")
		os.Exit(2)
	}
	var numbers [3]int
	for place, text := range os.Args[3:] {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			fmt.Fprintf(os.Stderr, "%s: not a positive number\n", text)
			os.Exit(2)
		}
		numbers[place] = number
	}
	limit := time.Duration(numbers[2]) * time.Second
	err := reproduce(os.Args[1], os.Args[2], numbers[0], numbers[1], limit)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, errNone) {
		os.Exit(1)
	}
	os.Exit(2)
}

// reproduce kills members until two differ. It returns errNone if none do within the limit.
func reproduce(program, folder string, clients, compares int, limit time.Duration) error {
	begun := time.Now()
	members, err := startAll(program, folder)
	defer stopAll(members)
	if err != nil {
		return err
	}
	var load writers
	defer load.stop()
	if err := load.start(members, clients, compares); err != nil {
		return err
	}
	for kills := 1; time.Since(begun) < limit; kills++ {
		time.Sleep(served)
		hit := members[rand.Intn(len(members))]
		if err := hit.restart(); err != nil {
			return err
		}
		load.pause()
		states, err := settled(members)
		if err != nil {
			return err
		}
		if differ(states) {
			fmt.Printf("%.1f s, %d kills, %d transactions\n",
				time.Since(begun).Seconds(), kills, load.done.Load())
			for place, each := range states {
				fmt.Printf("%s: applied %d, revision %d, hash %d\n",
					members[place].name, each.applied, each.revision, each.hash)
			}
			return nil
		}
		load.resume()
	}
	return errNone
}

// state is what one member holds after it has applied an entry of the log.
type state struct {
	applied  uint64
	revision int64
	hash     uint32
}

func differ(states []state) bool {
	for _, each := range states[1:] {
		if each.hash != states[0].hash || each.revision != states[0].revision {
			return true
		}
	}
	return false
}

// settled waits until all members have applied the same entry, and returns their states.
func settled(members []*member) ([]state, error) {
	last := errors.New("their positions differ")
	for end := time.Now().Add(catchUp); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		before, err := appliedBy(members)
		if err != nil {
			last = err
			continue
		}
		if !equal(before) {
			continue
		}
		states := make([]state, len(members))
		for place, each := range members {
			if states[place], err = each.state(before[place]); err != nil {
				break
			}
		}
		after, again := appliedBy(members)
		if err == nil && again == nil && equal(append(after, before...)) {
			return states, nil
		}
		if problem := errors.Join(err, again); problem != nil {
			last = problem
		}
	}
	return nil, fmt.Errorf("the members did not catch up: %w", last)
}

func equal(positions []uint64) bool {
	for _, each := range positions[1:] {
		if each != positions[0] {
			return false
		}
	}
	return true
}

func appliedBy(members []*member) ([]uint64, error) {
	found := make([]uint64, len(members))
	for place, each := range members {
		limit, cancel := context.WithTimeout(context.Background(), callTime)
		status, err := each.client.Status(limit, each.url)
		cancel()
		if err != nil {
			return nil, err
		}
		found[place] = status.RaftAppliedIndex
	}
	return found, nil
}

func startAll(program, folder string) ([]*member, error) {
	names := []string{"n1", "n2", "n3"}
	var cluster []string
	for place, name := range names {
		cluster = append(cluster, fmt.Sprintf("%s=%s", name, url(place, peers)))
	}
	var members []*member
	for place, name := range names {
		each := &member{name: name, url: url(place, clientPorts), arguments: []string{
			program, "--name=" + name, "--data-dir=" + filepath.Join(folder, name),
			"--initial-cluster=" + strings.Join(cluster, ","),
			"--listen-client-urls=" + url(place, clientPorts),
			"--advertise-client-urls=" + url(place, clientPorts),
			"--listen-peer-urls=" + url(place, peers),
			"--initial-advertise-peer-urls=" + url(place, peers),
		}}
		members = append(members, each)
		if err := each.start(); err != nil {
			return members, err
		}
	}
	for _, each := range members {
		if err := each.connect(); err != nil {
			return members, err
		}
	}
	return members, nil
}

func stopAll(members []*member) {
	var all sync.WaitGroup
	for _, each := range members {
		all.Add(1)
		go func(each *member) {
			defer all.Done()
			each.stop()
		}(each)
	}
	all.Wait()
}
