// Command kubelet serves logs, exec, attach and port-forward for the pods of one cluster of the twin, whose
// containers are processes of this machine. It is the kubelet of every node, with the kubelet's own streaming library.
//
//	kubelet --address HOST:PORT --cluster FOLDER --certificate FILE --key FILE --client-ca FILE --client-name NAME
//
// Only a client whose certificate has the name NAME may call it. It reads what the node agent writes: for each pod
// FOLDER/pods/NAMESPACE/UID/pod.json, and beside it a file for each container and process.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	headSeconds     = 10 * time.Second
	usageCode       = 2
	enterCommand    = "enter"
	shutdownSeconds = 2 * time.Second
)

type options struct {
	address, cluster, certificate, key, clientCA, clientName string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == enterCommand {
		os.Exit(enter(os.Args[2:]))
	}
	var given options
	flag.StringVar(&given.address, "address", "", "loopback address to listen on, HOST:PORT")
	flag.StringVar(&given.cluster, "cluster", "", "folder of the cluster")
	flag.StringVar(&given.certificate, "certificate", "", "file of the server's certificate")
	flag.StringVar(&given.key, "key", "", "file of the certificate's key")
	flag.StringVar(&given.clientCA, "client-ca", "", "file of the authority of clients' certificates")
	flag.StringVar(&given.clientName, "client-name", "", "common name of the only allowed client")
	flag.Parse()
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(usageCode)
	}
}

func run(given options) error {
	settings, err := tlsOf(given)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(given.address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	if address := net.ParseIP(host); address == nil || !address.IsLoopback() {
		return fmt.Errorf("--address: must be a loopback address, got %q", given.address)
	}
	listener, err := net.Listen("tcp", given.address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	running := newCommands()
	defer running.end()
	served := &http.Server{
		Handler:           only(given.clientName, routes(&node{cluster: given.cluster, commands: running})),
		TLSConfig:         settings,
		ReadHeaderTimeout: headSeconds,
		// SPDY and WebSocket upgrade a connection, which HTTP/2 does not have
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(os.Stderr, "", log.LstdFlags),
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stopped
		time.AfterFunc(shutdownSeconds, func() { _ = served.Close() })
		_ = served.Close()
	}()
	if err := served.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func tlsOf(given options) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(given.certificate, given.key)
	if err != nil {
		return nil, fmt.Errorf("--certificate: %w", err)
	}
	authority, err := os.ReadFile(given.clientCA)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("--client-ca: must have a certificate, got %s", given.clientCA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool,
		ClientAuth:   tls.VerifyClientCertIfGiven,
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// only lets the named client through. As with the kubelet, nobody else has a name here: no certificate is 401, and
// another name 403.
func only(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if found := r.TLS.PeerCertificates[0].Subject.CommonName; found != name {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s)", found), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
