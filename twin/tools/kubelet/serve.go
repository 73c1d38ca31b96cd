package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleTime     = 4 * time.Hour // the kubelet's default, streamingConnectionIdleTimeout
	creationTime = remotecommand.DefaultStreamCreationTimeout
)

func routes(n *node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.logs)
	for _, method := range []string{"GET", "POST"} {
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", n.exec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", n.attach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", n.forward)
	}
	return mux
}

func nameOf(r *http.Request) string {
	return r.PathValue("namespace") + "/" + r.PathValue("pod")
}

// asked returns the container of a request, or answers that it cannot be reached.
func (n *node) asked(w http.ResponseWriter, r *http.Request, must bool) *container {
	found, err := n.container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err == nil && must && !found.runs() {
		err = fmt.Errorf("container %q of pod %s is not running", r.PathValue("container"), nameOf(r))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // of a 404, the API server drops the text
		return nil
	}
	return found
}

func (n *node) exec(w http.ResponseWriter, r *http.Request) {
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if n.asked(w, r, true) == nil {
		return
	}
	remotecommand.ServeExec(w, r, n, nameOf(r), "", r.PathValue("container"), r.URL.Query()["command"], streams,
		idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
}

func (n *node) attach(w http.ResponseWriter, r *http.Request) {
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if n.asked(w, r, true) == nil {
		return
	}
	remotecommand.ServeAttach(w, r, n, nameOf(r), "", r.PathValue("container"), streams,
		idleTime, creationTime, remotecommand.SupportedStreamingProtocols)
}

// AttachContainer shows what the container writes from now on. Its standard input is closed.
func (n *node) AttachContainer(ctx context.Context, name, _, containerName string, _ io.Reader,
	out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize,
) error {
	namespace, podName, _ := strings.Cut(name, "/")
	found, err := n.container(namespace, podName, containerName)
	if err != nil {
		return err
	}
	none := int64(0)
	return write(ctx, found, logOptions{follow: true, tail: &none}, out)
}

func (n *node) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := n.find(r.PathValue("namespace"), r.PathValue("pod")); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // of a 404, the API server drops the text
		return
	}
	ports, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, n, nameOf(r), "", ports, idleTime, creationTime,
		portforward.SupportedProtocols)
}

// PortForward connects a stream with the port on which the pod's process listens on this machine.
func (n *node) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	namespace, podName, _ := strings.Cut(name, "/")
	owner, err := n.find(namespace, podName)
	if err != nil {
		return err
	}
	target, err := n.target(owner, port)
	if err != nil {
		return err
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return fmt.Errorf("failed to connect to port %d of pod %s: %w", port, name, err)
	}
	defer connection.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := io.Copy(stream, connection)
		answered <- err
	}()
	go func() {
		_, _ = io.Copy(connection, stream)
		if half, ok := connection.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	return <-answered
}
