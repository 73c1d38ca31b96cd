// Command pd-epp is the endpoint picker of a pool with prefill and decode replicas.
//
// It is the upstream runner with the plugins of package plugins in addition to the in-tree ones, so
// that a configuration for llm-d's picker runs unchanged.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha2"
	"sigs.k8s.io/gateway-api-inference-extension/cmd/epp/runner"

	"github.com/gke-inference/gke-inference/twin/tools/picker/plugins"
)

// groupVariable has the API group of objectives for the picker of llm-d-router, for which this one
// stands too (twin/tools/llm-d-router).
const groupVariable = "PICKER_API_GROUP"

func main() {
	if group := os.Getenv(groupVariable); group != "" {
		v1alpha2.GroupVersion.Group = group
		v1alpha2.SchemeGroupVersion.Group = group
	}
	plugins.Register()
	err := runner.NewRunner().
		WithExecutableName("pd-epp").
		WithCustomCollectors(plugins.Collectors()...).
		Run(ctrl.SetupSignalHandler())
	if err != nil {
		os.Exit(1)
	}
}
