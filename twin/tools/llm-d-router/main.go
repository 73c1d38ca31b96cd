// Command llm-d-router stands for the endpoint picker of llm-d-router v0.10.0, whose Go module this
// project's builds cannot have. It takes the flags and the configuration of that program, watches
// the kinds of its API group and has its metrics, but decides as the picker of
// gateway-api-inference-extension v1.5.0, from which it is built.
//
// Where the program of the image can be had, `gke-inference tools` installs it under this name.
package main

import (
	"fmt"
	"os"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"

	"github.com/gke-inference/gke-inference/twin/tools/llm-d-router/group"
)

const (
	// rolesVariable has the path of the picker for pools of prefill and decode replicas, and
	// groupVariable tells it the API group.
	rolesVariable = "LLM_D_ROUTER_ROLES"
	groupVariable = "PICKER_API_GROUP"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	made, err := translate(os.Args[1:], os.ReadFile)
	if err != nil {
		return err
	}
	if made.hasRoles {
		program := os.Getenv(rolesVariable)
		if program == "" {
			return fmt.Errorf("%s is not set: no picker for prefill and decode replicas", rolesVariable)
		}
		environment := append(os.Environ(), groupVariable+"="+group.Name)
		return syscall.Exec(program, append([]string{program}, made.arguments...), environment)
	}
	os.Args = append(os.Args[:1], made.arguments...)
	metrics.Registry = renaming{metrics.Registry}
	return runner.NewRunner().WithExecutableName("llm-d-router").Run(ctrl.SetupSignalHandler())
}
