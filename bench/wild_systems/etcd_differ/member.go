package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	clientPorts = 23790
	peers       = 23800
)

func url(place, port int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", port+place)
}

// member is one process of etcd, and a client of it alone.
type member struct {
	name, url string
	arguments []string
	process   *exec.Cmd
	client    *clientv3.Client
}

func (m *member) start() error {
	m.process = exec.Command(m.arguments[0], m.arguments[1:]...)
	return m.process.Start()
}

func (m *member) connect() error {
	var err error
	m.client, err = clientOf(m.url)
	return err
}

// restart kills the member by SIGKILL, starts it again and waits until it serves.
func (m *member) restart() error {
	m.kill()
	if err := m.start(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(catchUp); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		limit, cancel := context.WithTimeout(context.Background(), callTime)
		_, err = m.client.Status(limit, m.url)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not serve: %w", m.name, err)
}

func (m *member) kill() {
	_ = m.process.Process.Signal(os.Kill)
	_ = m.process.Wait()
}

func (m *member) stop() {
	if m.client != nil {
		m.client.Close()
	}
	if m.process != nil && m.process.Process != nil {
		m.kill()
	}
}

func (m *member) state(applied uint64) (state, error) {
	limit, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	found, err := m.client.HashKV(limit, m.url, 0)
	if err != nil {
		return state{}, err
	}
	return state{applied: applied, revision: found.Header.Revision, hash: found.Hash}, nil
}

func clientOf(url string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{url},
		Logger:    zap.NewNop(),
	})
}
