// Command router is the first external processor of an inference gateway: it names the model of a
// request in a header, by which the gateway chooses the route.
//
// Google's load balancer calls it for each request, as a GCPRoutingExtension of the Gateway with full-duplex
// bodies. A body is held until it is complete, and passes unchanged. What no model can serve is refused
// with 400, and a body over the limit with 413, before the program reads it.
//
//	router [--grpc-port 9004] [--grpc-health-port 9005] [--metrics-port 9090] [--credentials HEADER,...]
//		[--gate HOST:PORT --asked MODEL,...]
//
// With --credentials, a request that has none of these headers is refused with 401 before its body is read.
// With --gate, the client gate is asked about requests for the models of --asked: a team whose budget is spent can have
// a cheaper model, which the header then names. The gate changes the body.
// The load balancer speaks HTTP/2 over TLS and does not verify the certificate, so the program creates
// a certificate at each start. The gRPC health protocol is served in plain text on a separate port.
//
// The client can control neither the number of bodies that the program holds nor their memory: both are
// limited, for each client address and in all. The first 64 KiB of a body count only as a body, so that
// large bodies never keep out a small one.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"google.golang.org/grpc/health"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/program"
	"gke-inference/gateway/router/internal/routing"
)

type options struct {
	program.Processor
	credentials []string
	// gate is the client gate, and asked are the models of which it knows whether another one answers for them.
	gate  string
	asked []string
}

func main() { program.Main(parse, run) }

func parse(args []string) (options, error) {
	o := options{Processor: program.Processor{GRPCPort: 9004, HealthPort: 9005, MetricsPort: 9090}}
	flags := flag.NewFlagSet("router", flag.ContinueOnError)
	o.Flags(flags, "grpc-health-port")
	flags.Func("credentials", "lowercase headers of which a request needs one, separated by commas", func(text string) error {
		o.credentials = strings.Split(text, ",")
		return nil
	})
	flags.StringVar(&o.gate, "gate", "", "HOST:PORT of the client gate, which is asked about the models of --asked")
	flags.Func("asked", "models for which another one can answer, separated by commas", func(text string) error {
		o.asked = strings.Split(text, ",")
		return nil
	})
	if err := program.Parse(flags, args); err != nil {
		return o, err
	}
	if (o.gate == "") != (len(o.asked) == 0) {
		return o, fmt.Errorf("--gate: needs --asked, and --asked needs --gate, got %q and %q", o.gate, o.asked)
	}
	return o, o.Check()
}

func run(o options) error {
	ctx, stop := program.Signaled()
	defer stop()
	hold := holding.New(o.Bodies.Limits)
	processor := &routing.Server{
		Hold: hold, Metrics: routing.NewMetrics(hold), Limits: o.Bodies, ForwardedHops: o.ForwardedHops,
		Credentials: o.credentials,
	}
	if o.gate != "" {
		gate, err := routing.NewGate(o.gate, o.asked)
		if err != nil {
			return err
		}
		processor.Gate = gate
	}
	ports, err := o.Listen()
	if err != nil {
		return err
	}
	return o.Serve(ctx, "router", ports, processor, processor.Metrics.Registry, func(context.Context, *health.Server) {})
}
