// Command kafka is an in-memory Kafka broker for streams on the twin. It answers programs of its user, and
// stores nothing after it ends.
//
//	kafka --address HOST:PORT [--topics NAME,NAME] [--partitions NUMBER]
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gke-inference/gke-inference/twin/tools/owncallers"
)

func main() {
	address := flag.String("address", "", "address to listen on, HOST:PORT")
	topics := flag.String("topics", "", "topics that are there from the start, with commas between them")
	partitions := flag.Int("partitions", 3, "partitions of each")
	flag.Parse()
	if err := run(*address, *topics, *partitions); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(address, topics string, partitions int) error {
	host, text, err := net.SplitHostPort(address)
	port, wrong := strconv.Atoi(text)
	if err = errors.Join(err, wrong); err != nil {
		return fmt.Errorf("--address: must be HOST:PORT, got %q: %w", address, err)
	}
	listen := func(string, string) (net.Listener, error) {
		return owncallers.Listen(net.JoinHostPort(host, text))
	}
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.ListenFn(listen)}
	if topics != "" {
		options = append(options, kfake.SeedTopics(int32(partitions), strings.Split(topics, ",")...))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	defer cluster.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	return nil
}
