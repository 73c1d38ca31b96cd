// Command pd-epp is the endpoint picker of a pool with prefill and decode replicas.
//
// It is the upstream runner with the plugins of package plugins in addition to the in-tree ones, so
// that a configuration for llm-d's picker runs unchanged.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"

	_ "github.com/gke-inference/gke-inference/twin/tools/picker/group"
	"github.com/gke-inference/gke-inference/twin/tools/picker/plugins"
)

func main() {
	plugins.Register()
	err := runner.NewRunner().
		WithExecutableName("pd-epp").
		WithCustomCollectors(plugins.Collectors()...).
		Run(ctrl.SetupSignalHandler())
	if err != nil {
		os.Exit(1)
	}
}
