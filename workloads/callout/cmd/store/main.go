// Command store is a Valkey in memory, for tests and the local twin: it has the commands that the
// callout's scripts use, and forgets everything at its end.
//
//	callout-store --address 127.0.0.1:6379
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	address := flag.String("address", "127.0.0.1:6379", "address to listen on")
	flag.Parse()
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(*address); err != nil {
		fmt.Fprintf(os.Stderr, "--address: %v\n", err)
		os.Exit(2)
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	second := time.NewTicker(time.Second)
	for {
		select {
		case <-second.C:
			server.FastForward(time.Second) // its keys expire by this alone
		case <-end:
			server.Close()
			return
		}
	}
}
