package main

import (
	"context"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// writers are clients that write without pauses, each by a connection of its own.
type writers struct {
	done   atomic.Int64
	gate   sync.RWMutex
	all    sync.WaitGroup
	end    context.CancelFunc
	opened []*clientv3.Client
	paused bool
}

func (w *writers) start(members []*member, clients, compares int) error {
	running, cancel := context.WithCancel(context.Background())
	w.end = cancel
	for number := 0; number < clients; number++ {
		client, err := clientOf(members[number%len(members)].url)
		if err != nil {
			return err
		}
		w.opened = append(w.opened, client)
		w.all.Add(1)
		go w.write(running, client, compares, int64(number))
	}
	return nil
}

// write changes random keys, each on a condition that always holds.
func (w *writers) write(running context.Context, client *clientv3.Client, compares int, seed int64) {
	defer w.all.Done()
	drawn := rand.New(rand.NewSource(seed))
	for running.Err() == nil {
		var when []clientv3.Cmp
		var puts []clientv3.Op
		for _, number := range drawn.Perm(keys)[:compares] {
			key := "key-" + strconv.Itoa(number)
			when = append(when, clientv3.Compare(clientv3.Version(key), ">", -1))
			puts = append(puts, clientv3.OpPut(key, strconv.FormatInt(drawn.Int63(), 10)))
		}
		w.gate.RLock()
		limit, cancel := context.WithTimeout(running, callTime)
		_, err := client.Txn(limit).If(when...).Then(puts...).Commit()
		cancel()
		w.gate.RUnlock()
		if err == nil {
			w.done.Add(1)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// pause waits for the calls under way, and keeps clients from the next ones.
func (w *writers) pause() {
	w.gate.Lock()
	w.paused = true
}

func (w *writers) resume() {
	w.paused = false
	w.gate.Unlock()
}

func (w *writers) stop() {
	if w.end == nil {
		return
	}
	w.end()
	if w.paused {
		w.resume()
	}
	w.all.Wait()
	for _, client := range w.opened {
		client.Close()
	}
}
