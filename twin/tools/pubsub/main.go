// Command pubsub is an in-memory Pub/Sub for the twin: topics, subscriptions, and message delivery.
//
//	pubsub --address HOST:PORT --admin-address HOST:PORT
//
// pstest stores topics, subscriptions and schemas. This program delivers messages itself, because the
// delivery of pstest has no flow control, no backoff, one attempt counter for all subscriptions of a
// topic, and acknowledgement IDs that outlive their lease. It answers programs of its user, and stores
// nothing after it ends.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cloud.google.com/go/pubsub/pstest"

	"github.com/gke-inference/gke-inference/twin/tools/owncallers"
)

const largestRequest = 10 << 20

func main() {
	address := flag.String("address", "", "address of the API, HOST:PORT")
	admin := flag.String("admin-address", "", "address of metrics and of what the provider calls, HOST:PORT")
	flag.Parse()
	if err := run(*address, *admin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(address, admin string) error {
	if address == "" {
		return errors.New("--address: is required")
	}
	listener, err := owncallers.Listen(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	pstest.SetMinAckDeadline(10 * time.Second)
	kept := pstest.NewServer()
	defer kept.Close()
	served := newServer(&kept.GServer)
	server := served.api()
	go served.watch(10 * time.Millisecond)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	if admin != "" {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /metrics", served.writeMetrics)
		mux.HandleFunc("PUT /callers", served.readCaller)
		mux.HandleFunc("PUT /grants", served.readGrants)
		served.admin(mux)
		served.rest(mux)
		managed, err := owncallers.Listen(admin)
		if err != nil {
			return fmt.Errorf("--admin-address: %w", err)
		}
		go func() { failed <- http.Serve(managed, owncallers.NoPages(mux)) }()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-end:
		server.Stop()
		return nil
	}
}
