package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const loadKeys = 9

// load lets clients write and read in turn without pauses, each by a connection of its own to one
// of the members. It prints how many operations a second were acknowledged.
func load(seconds, connections int, members []string) error {
	limit, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var done atomic.Int64
	var all sync.WaitGroup
	for number := 0; number < connections; number++ {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{members[number%len(members)]},
			DialTimeout: dialTime,
			Logger:      zap.NewNop(),
		})
		if err != nil {
			return err
		}
		defer client.Close()
		all.Add(1)
		go func(number int) {
			defer all.Done()
			for count := 0; limit.Err() == nil; count++ {
				key := "load-" + strconv.Itoa((number+count)%loadKeys)
				var err error
				if count%2 == 0 {
					_, err = client.Put(limit, key, strconv.Itoa(count))
				} else {
					_, err = client.Get(limit, key)
				}
				if err == nil {
					done.Add(1)
				}
			}
		}(number)
	}
	all.Wait()
	fmt.Printf("%.1f\n", float64(done.Load())/float64(seconds))
	return nil
}
