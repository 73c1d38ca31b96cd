// Command fake-gcs-server is Cloud Storage on the twin: fsouza/fake-gcs-server over a folder.
//
//	fake-gcs-server --address HOST:PORT --folder PATH
//
// Its own main program allows every origin and answers every user of the machine. This one answers
// programs of its user, and no web page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"mime"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"github.com/gke-inference/gke-inference/twin/tools/owncallers"
)

func main() {
	address := flag.String("address", "", "address to listen on, HOST:PORT")
	folder := flag.String("folder", "", "folder of the buckets")
	flag.Parse()
	if err := run(*address, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(address, folder string) error {
	if address == "" || folder == "" {
		return errors.New("--address and --folder: are required")
	}
	for _, ending := range []string{".yaml", ".yml"} { // as in its own main program
		if err := mime.AddExtensionType(ending, "application/x-yaml"); err != nil {
			return err
		}
	}
	listener, err := owncallers.Listen(address)
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	served, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		StorageRoot: folder,
		PublicHost:  address,
		ExternalURL: "http://" + address,
		NoListener:  true,
	})
	if err != nil {
		return fmt.Errorf("--folder: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, owncallers.NoPages(served.HTTPHandler())) }()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-end:
		return nil
	}
}
