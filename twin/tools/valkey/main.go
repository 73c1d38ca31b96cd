// Command valkey is the server of a Memorystore for Valkey instance on the twin: one node, in memory.
// It stores nothing after it ends. Keys expire in real time. Vector search is in search.go.
//
//	valkey --address HOST:PORT [--certificate FILE --key FILE]
//
// With a certificate, it uses TLS.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
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
	server := miniredis.NewMiniRedis()
	if certificate == "" {
		if err := server.StartAddr(address); err != nil {
			return fmt.Errorf("--address: %w", err)
		}
	} else {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("--certificate: %w", err)
		}
		settings := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		if err := server.StartAddrTLS(address, settings); err != nil {
			return fmt.Errorf("--address: %w", err)
		}
	}
	defer server.Close()
	if err := addSearch(server); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	clock := time.NewTicker(tick)
	defer clock.Stop()
	last := time.Now()
	for {
		select {
		case now := <-clock.C: // the library expires keys only when its clock is advanced
			server.FastForward(now.Sub(last))
			last = now
		case <-end:
			return nil
		}
	}
}
