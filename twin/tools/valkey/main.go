// Command valkey is the server of a Memorystore for Valkey instance on the twin: one node, in memory.
// It answers programs of its user, and stores nothing after it ends. Keys expire in real time. Vector
// search is in search.go.
//
//	valkey --address HOST:PORT [--certificate FILE --key FILE]
//
// With a certificate, it uses TLS.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/gke-inference/gke-inference/twin/tools/owncallers"
)

const (
	tick = 100 * time.Millisecond
	// gcPercent lets the heap grow to about 40 MiB. The library makes a Lua interpreter for each script,
	// 250 KiB of garbage. At Go's default of 100, 400 scripts a second cause 44 collections a second,
	// whose pauses are longer than the scripts; Valkey has none.
	gcPercent = 800
)

func main() {
	address := flag.String("address", "", "address to listen on, HOST:PORT")
	certificate := flag.String("certificate", "", "file of the server's certificate chain")
	key := flag.String("key", "", "file of the certificate's key")
	flag.Parse()
	if err := run(*address, *certificate, *key); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(address, certificate, key string) error {
	debug.SetGCPercent(gcPercent)
	if address == "" {
		return fmt.Errorf("--address: is required")
	}
	data, err := stored(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	defer data.Close()
	listener, err := owncallers.Listen(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("--certificate: %w", err)
		}
		settings := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		listener = tls.NewListener(listener, settings)
	}
	if err := addSearch(data); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- serve(listener, data.Server()) }()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	clock := time.NewTicker(tick)
	defer clock.Stop()
	last := time.Now()
	for {
		select {
		case now := <-clock.C: // the library expires keys only when its clock is advanced
			data.FastForward(now.Sub(last))
			last = now
		case err := <-failed:
			return err
		case <-end:
			return nil
		}
	}
}

// stored returns a server without a listener. Its own one, which it needs to know the address that it
// reports to clients of a cluster, refuses everybody and is closed.
func stored(address string) (*miniredis.Miniredis, error) {
	refuse := func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("not served here") }
	data := miniredis.NewMiniRedis()
	if err := data.StartAddrTLS(address, &tls.Config{GetConfigForClient: refuse}); err != nil {
		return nil, err
	}
	data.Server().Close()
	return data, nil
}

// serve passes connections on until the listener fails.
func serve(listener net.Listener, behind *server.Server) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		behind.ServeConn(connection)
	}
}
