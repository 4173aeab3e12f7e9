// A client of etcd by its own Go library, as a helper program of the line protocol
// (docs/line-protocol.md): registers, read, written, and compared and set. With the arguments
// `load SECONDS CONNECTIONS URL...` it is a load without the harness.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	clients  = 2379
	dialTime = 2 * time.Second
	callTime = 3 * time.Second
	longest  = 16 << 20
)

type request struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Client  string          `json:"client"`
	Address string          `json:"address"`
	F       string          `json:"f"`
	Key     json.RawMessage `json:"key"`
	Value   json.RawMessage `json:"value"`
}

type answer struct {
	ID       int             `json:"id"`
	Type     string          `json:"type"`
	Protocol int             `json:"protocol,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Error    string          `json:"error,omitempty"`
}

type helper struct {
	open    map[string]*clientv3.Client
	options []clientv3.OpOption
}

func main() {
	if len(os.Args) > 4 && os.Args[1] == "load" {
		seconds, _ := strconv.Atoi(os.Args[2])
		connections, _ := strconv.Atoi(os.Args[3])
		if err := load(seconds, connections, os.Args[4:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	h := helper{open: map[string]*clientv3.Client{}}
	if len(os.Args) > 1 && os.Args[1] == "serializable" {
		h.options = append(h.options, clientv3.WithSerializable())
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longest)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		told := h.carryOut(asked)
		told.ID = asked.ID
		if err := out.Encode(told); err != nil {
			os.Exit(1)
		}
	}
}

func (h *helper) carryOut(asked request) answer {
	switch asked.Type {
	case "hello":
		return answer{Type: "hello", Protocol: 1}
	case "open":
		return h.connect(asked.Client, asked.Address)
	case "close":
		h.disconnect(asked.Client)
		return answer{Type: "ok"}
	case "invoke":
		client, known := h.open[asked.Client]
		if !known {
			return answer{Type: "fail", Error: "no client is open for " + asked.Client}
		}
		return h.invoke(client, asked)
	}
	return answer{Type: "fail", Error: "unknown request " + asked.Type}
}

// connect opens a client of one member, and waits for the connection: until then nothing is sent.
func (h *helper) connect(name, address string) answer {
	h.disconnect(name)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{fmt.Sprintf("http://%s:%d", address, clients)},
		DialTimeout: dialTime,
		DialOptions: []grpc.DialOption{grpc.WithBlock()},
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return answer{Type: "fail", Error: err.Error()}
	}
	h.open[name] = client
	return answer{Type: "ok"}
}

func (h *helper) disconnect(name string) {
	if client, known := h.open[name]; known {
		client.Close()
		delete(h.open, name)
	}
}

// invoke carries one operation out. A read without an answer had no effect; a change without one
// may have been done.
func (h *helper) invoke(client *clientv3.Client, asked request) answer {
	limit, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	key := "go-" + string(asked.Key)
	switch asked.F {
	case "read":
		found, err := client.Get(limit, key, h.options...)
		if err != nil {
			return answer{Type: "fail", Error: err.Error()}
		}
		if len(found.Kvs) == 0 {
			return answer{Type: "ok", Value: json.RawMessage("null")}
		}
		return answer{Type: "ok", Value: found.Kvs[0].Value}
	case "write":
		_, err := client.Put(limit, key, string(asked.Value))
		if err != nil {
			return answer{Type: "info", Error: err.Error()}
		}
		return answer{Type: "ok", Value: asked.Value}
	case "cas":
		return compareAndSet(limit, client, key, asked.Value)
	}
	return answer{Type: "fail", Error: "unknown operation " + asked.F}
}

func compareAndSet(
	limit context.Context, client *clientv3.Client, key string, value json.RawMessage,
) answer {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(value, &pair); err != nil {
		return answer{Type: "fail", Error: "the value must be [old, new]"}
	}
	expected := clientv3.Compare(clientv3.Value(key), "=", string(pair[0]))
	if string(pair[0]) == "null" {
		expected = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	done, err := client.Txn(limit).If(expected).Then(clientv3.OpPut(key, string(pair[1]))).Commit()
	if err != nil {
		return answer{Type: "info", Error: err.Error()}
	}
	if !done.Succeeded {
		return answer{Type: "fail", Error: "the value is another"}
	}
	return answer{Type: "ok", Value: value}
}
