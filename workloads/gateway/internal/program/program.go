// Package program has what the commands of the gateway share: their flags, their start and their end.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	usageError = 2
	readTime   = 10 * time.Second
)

// Main runs a command with its flags. An error is one line on standard error, and exit code 2.
func Main[O any](parse func(args []string) (O, error), run func(O) error) {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	wanted, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(wanted)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(usageError)
	}
}

// Parse reads flags, and nothing else. The help goes to standard output.
func Parse(flags *flag.FlagSet, args []string) error {
	help := flags.Usage
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.Usage = help
		flags.PrintDefaults()
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("arguments: must be flags only, got %q", flags.Arg(0))
	}
	return err
}

// Signaled returns a context that SIGTERM and SIGINT end.
func Signaled() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

// Listen listens on ports of an address; an empty one is all.
func Listen(address string, ports ...int) ([]net.Listener, error) {
	made := make([]net.Listener, len(ports))
	for at, port := range ports {
		var err error
		if made[at], err = net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port))); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// Web returns a server of pages.
func Web(pages http.Handler) *http.Server {
	return &http.Server{Handler: pages, ReadHeaderTimeout: readTime}
}

// Until waits for the end of the context, or for a server that fails before.
func Until(ctx context.Context, failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Drain waits while callers learn that the program ends.
func Drain(wait time.Duration) {
	slog.Info("draining", "seconds", wait.Seconds())
	time.Sleep(wait)
}
