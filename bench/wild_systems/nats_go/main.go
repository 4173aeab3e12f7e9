package main

import (
	"flag"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	nothing := func() {}
	options, err := server.ConfigureOptions(flags, os.Args[1:], nothing, nothing, nothing)
	if err != nil {
		server.PrintAndDie(err.Error())
	}
	running, err := server.NewServer(options)
	if err != nil {
		server.PrintAndDie(err.Error())
	}
	running.ConfigureLogger()
	if err := server.Run(running); err != nil {
		server.PrintAndDie(err.Error())
	}
	running.WaitForShutdown()
}
